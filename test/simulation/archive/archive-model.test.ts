import { firstSeed } from '../first-seed.ts';
import { seedsOf, timeoutMs } from '../seed-ranges.ts';
import { replayCommandOf, runModel } from './model.ts';
import { runTwoInstallations } from './two-installations.ts';

const first = firstSeed();

async function mustBeClean(seed: number, isInMemory: boolean): Promise<void> {
  const { failure } = await runModel({ seed, isInMemory });
  if (failure !== undefined)
    throw new Error(`seed ${seed}: ${failure.message}\nAgain: ${replayCommandOf({ seed })}`);
}

describe(`from seed ${first} on, the archive keeps its promises`, () => {
  it.each([
    ['in a folder', 14, false, first],
    ['in memory', 20, true, first + 14],
    ['in memory', 20, true, first + 34],
    ['in memory', 20, true, first + 54],
  ])(
    '%s, with %i seeds',
    async (_place, seeds, isInMemory, from) => {
      for (const seed of seedsOf(from, seeds)) await mustBeClean(seed, isInMemory);
    },
    timeoutMs,
  );
});

it(
  'two installations with one key, store and namespace name leave the archives of each other, also after a restore',
  async () => {
    await runTwoInstallations(first);
    await runTwoInstallations(first + 1, 1);
  },
  timeoutMs,
);

it(
  'a seed is the same run every time, wherever the objects are',
  async () => {
    for (const seed of [2, 5]) {
      const [files, memory] = [
        await runModel({ seed }),
        await runModel({ seed, isInMemory: true, keepLines: 10 }),
      ];
      expect(memory).toMatchObject({ hash: files.hash, steps: files.steps });
    }
  },
  timeoutMs,
);
