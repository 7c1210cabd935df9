import { firstSeed } from '../first-seed.ts';
import { seedsOf, timeoutMs } from '../seed-ranges.ts';
import { runHandovers } from './model.ts';

const first = firstSeed();

describe(`from seed ${first} on, a handover keeps its promises`, () => {
  it.each([0, 1, 2, 3])(
    'between crashes, lost requests and late writes, part %i',
    async (part) => {
      for (const seed of seedsOf(first + part * 100, 100)) await runHandovers(seed);
    },
    timeoutMs,
  );
});

it('a seed is the same run every time', async () => {
  expect(await runHandovers(3)).toEqual(await runHandovers(3));
});
