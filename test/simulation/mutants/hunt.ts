import type { Kill } from './mutant.ts';
import type { SourceMutation } from './mutated-source.ts';

export interface Failure {
  readonly seed: number;
  readonly rule: string;
  readonly message: string;
  /** Steps of the simulation until the failure. */
  readonly steps: number;
}

export interface HuntOptions {
  readonly name: string;
  readonly mutation: SourceMutation;
  readonly kill: Kill;
  readonly firstSeed: number;
  readonly seeds: number;
  /** A seed that killed the mutant before, simulated first if it is one of the hunt's seeds. */
  readonly knownSeed?: number | undefined;
  /** How many seeds have to show the mistake: more than one to measure its chance. */
  readonly kills: number;
}

/** The seeds of a hunt, each once. */
export function seedsInOrder({
  firstSeed,
  seeds,
  knownSeed,
}: Pick<HuntOptions, 'firstSeed' | 'seeds' | 'knownSeed'>): readonly number[] {
  const all = Array.from({ length: seeds }, (_, index) => firstSeed + index);
  return [...all.filter((seed) => seed === knownSeed), ...all.filter((seed) => seed !== knownSeed)];
}

/** Searches for a seed that fails by a check of the mutant; other failures prove nothing. */
export class Hunt {
  readonly options: HuntOptions;
  readonly #kills: Failure[] = [];
  readonly #others: Failure[] = [];
  readonly #seeds: readonly number[];
  #given = 0;
  #done = 0;

  constructor(options: HuntOptions) {
    this.options = options;
    this.#seeds = seedsInOrder(options);
  }

  /** The next seed to simulate; undefined: there is nothing left to hand out. */
  take(): number | undefined {
    return this.isOpen ? this.#seeds[this.#given++] : undefined;
  }

  record(failure: Failure | undefined): void {
    this.#done++;
    if (failure === undefined) return;
    const { rule } = this.options.kill;
    const isKill = typeof rule === 'string' ? failure.rule === rule : rule.test(failure.rule);
    (isKill ? this.#kills : this.#others).push(failure);
  }

  /** The seed with the fewest steps, among those that showed the mistake. */
  get killer(): number | undefined {
    return this.#kills.toSorted((one, other) => one.steps - other.steps)[0]?.seed;
  }

  get isKilled(): boolean {
    return this.killer !== undefined;
  }

  /** Whether there are seeds left to hand out. */
  get isOpen(): boolean {
    return this.#kills.length < this.options.kills && this.#given < this.#seeds.length;
  }

  /** One line: what killed the mutant, and what else its seeds have shown. */
  get report(): string {
    const { name } = this.options;
    const [kill] = this.#kills;
    const rules = [...Map.groupBy(this.#others, ({ rule }) => rule)].map(
      ([rule, failures]) => `${failures.length} fail ‘${rule}’`,
    );
    const outcome = kill === undefined ? 'SURVIVES' : `killed by seed ${kill.seed}, ‘${kill.rule}’`;
    return `${name}: ${outcome} (${[`${this.#kills.length} of ${this.#done} seeds`, ...rules].join(', ')})`;
  }
}
