import { partOf } from '../support/part.ts';
import { mustBeClean } from './expectations.ts';
import { firstSeed } from './first-seed.ts';
import type { SimulationOptions } from './stage.ts';

const first = firstSeed();
/** CI computes seeds with the CPU time that no other process wants. */
export const timeoutMs = 3_600_000;

type Range = [options: Omit<SimulationOptions, 'seed'>, seeds: number, from?: number];

/** Ranges of seeds, each as long as one test may take on a busy machine. */
export const ranges = (options: Range[0], seeds: number, batch: number): Range[] =>
  Array.from({ length: seeds / batch }, (_, index) => [options, batch, first + index * batch]);

export const seedsOf = (from: number, seeds: number): readonly number[] =>
  partOf(Array.from({ length: seeds }, (_, index) => from + index));

/** Tests that runs are clean: of each range, from the first seed on where it names no other. */
export function mustAllBeClean(of: readonly Range[]): void {
  describe(`from seed ${first} on, the whole product keeps its promises`, () => {
    const tested = of
      .map(([options, seeds, from = first]) => [options, seedsOf(from, seeds)] as const)
      .filter(([, seeds]) => seeds.length > 0);
    it.each(tested)(
      'with %j, the seeds %j',
      async (options, seeds) => {
        for (const seed of seeds) await mustBeClean({ seed, ...options });
      },
      timeoutMs,
    );
  });
}
