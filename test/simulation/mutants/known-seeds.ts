import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/** A run begins with the known seeds, or it also stores those of its own. */
type Use = 'read' | 'write';

/** For each mutant a seed that killed it before, which decides nothing but a hunt's order. */
export class KnownSeeds {
  readonly #file: URL;
  readonly #use: Use;
  readonly #seeds: ReadonlyMap<string, number>;

  private constructor(file: URL, use: Use) {
    this.#file = file;
    this.#use = use;
    this.#seeds = new Map(Object.entries(JSON.parse(readFileSync(file, 'utf8')) as object));
  }

  /** The known seeds; undefined without a use: hunts begin with their first seed. */
  static of(use: string, file: URL): KnownSeeds | undefined {
    if (use === '') return undefined;
    if (use !== 'read' && use !== 'write')
      throw new Error(`KNOWN_SEEDS is read or write; not ${use}`);
    return new KnownSeeds(file, use);
  }

  /** Whether `write` stores seeds. */
  get isStored(): boolean {
    return this.#use === 'write';
  }

  seedOf(name: string): number | undefined {
    return this.#seeds.get(name);
  }

  /**
   * Stores the seeds of a run in the order of `names`, if that is the use of the known seeds. A
   * mutant that the run has left out or not killed keeps its seed. Seeds of mutants that no longer
   * exist are removed.
   */
  write(names: readonly string[], killers: ReadonlyMap<string, number | undefined>): void {
    if (!this.isStored) return;
    const seeds = names.flatMap((name) => {
      const seed = killers.get(name) ?? this.seedOf(name);
      return seed === undefined ? [] : [[name, seed] as const];
    });
    // Renamed into place: another process may read the file now.
    const whole = new URL(`${this.#file.href}.new`);
    writeFileSync(whole, `${JSON.stringify(Object.fromEntries(seeds), undefined, 2)}\n`);
    renameSync(whole, this.#file);
  }
}
