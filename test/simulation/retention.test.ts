import { mustBeClean } from './expectations.ts';
import { firstSeed } from './first-seed.ts';
import type { SimulationOptions } from './stage.ts';

const first = firstSeed();
const timeoutMs = 600_000;

describe(`from seed ${first} on, the simulation with deletions by retention`, () => {
  it.each<[Omit<SimulationOptions, 'seed'>, number]>([
    [{}, 60],
    [{ messages: true }, 60],
    [{ faults: 'of leaders' }, 20],
    [{ faults: 'none', messages: true }, 25],
  ])(
    'is clean with %j and %i seeds',
    async (options, seeds) => {
      for (let seed = first; seed < first + seeds; seed++)
        await mustBeClean({ seed, ...options, retention: true });
    },
    timeoutMs,
  );
});
