import { mustBeClean } from './expectations.ts';
import { firstSeed } from './first-seed.ts';
import type { SimulationOptions } from './stage.ts';

const first = firstSeed();
const timeoutMs = 600_000;

describe(`from seed ${first} on, the simulation with pools of spare sandboxes`, () => {
  it.each<[Omit<SimulationOptions, 'seed'>, number]>([
    [{}, 60],
    [{ messages: true }, 30],
    [{ retention: true }, 30],
    [{ faults: 'of leaders' }, 20],
    [{ faults: 'of handovers' }, 20],
    [{ faults: 'none', messages: true }, 20],
  ])(
    'is clean with %j and %i seeds',
    async (options, seeds) => {
      for (let seed = first; seed < first + seeds; seed++)
        await mustBeClean({ seed, ...options, pools: true });
    },
    timeoutMs,
  );
});
