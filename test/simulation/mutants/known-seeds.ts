import { existsSync, readFileSync, writeFileSync } from 'node:fs';

/**
 * The seeds that showed each mistake last, in a file. A known seed decides the order of a search and
 * nothing else: a mutant whose known seed shows nothing any more has all its other seeds.
 */
export class KnownSeeds {
  readonly #file: URL;
  readonly #seeds: ReadonlyMap<string, number>;

  private constructor(file: URL, seeds: ReadonlyMap<string, number>) {
    this.#file = file;
    this.#seeds = seeds;
  }

  static read(file: URL): KnownSeeds {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '{}';
    return new KnownSeeds(
      file,
      new Map(Object.entries(JSON.parse(text) as Record<string, number>)),
    );
  }

  /** The seed that showed the mistake last, if it is known. */
  of(name: string): number | undefined {
    return this.#seeds.get(name);
  }

  /**
   * Stores the seeds of a run in the order of `names`, and keeps those of mutants that the run has
   * left out or not killed. KnownSeeds of names that are no longer there go.
   */
  write(names: readonly string[], killers: ReadonlyMap<string, number | undefined>): void {
    const seeds = names.flatMap((name) => {
      const seed = killers.get(name) ?? this.of(name);
      return seed === undefined ? [] : [[name, seed] as const];
    });
    writeFileSync(this.#file, `${JSON.stringify(Object.fromEntries(seeds), undefined, 2)}\n`);
  }
}
