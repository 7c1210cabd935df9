import { mustBeClean } from './expectations.ts';
import { firstSeed } from './first-seed.ts';
import { focusNames } from './focus.ts';
import { Scheduler } from './scheduler.ts';
import { simulate } from './simulation.ts';
import type { SimulationOptions } from './stage.ts';

const first = firstSeed();
const timeoutMs = 600_000;

type Case = [options: Omit<SimulationOptions, 'seed'>, seeds: number, from: number];

/** Ranges of seeds, each as long as one test may take on a busy machine. */
const ranges = (options: Case[0], seeds: number, batch: number): Case[] =>
  Array.from({ length: seeds / batch }, (_, index) => [options, batch, first + index * batch]);

describe(`from seed ${first} on, the whole product keeps its promises`, () => {
  it.each<Case>([
    ...ranges({}, 500, 50),
    [{ world: 'plain' }, 25, first],
    [{ world: 'single-owner' }, 25, first],
    [{ faults: 'of leaders' }, 25, first],
    [{ faults: 'of leaders', world: 'plain' }, 10, first],
    [{ faults: 'none' }, 25, first],
    ...ranges({ messages: true }, 150, 50),
    [{ messages: true, world: 'plain' }, 10, first],
    [{ messages: true, world: 'single-owner' }, 10, first],
    [{ messages: true, faults: 'of leaders' }, 20, first],
    [{ messages: true, faults: 'none' }, 20, first],
    ...focusNames.map((focus): Case => [{ focus }, 8, first]),
    ...focusNames.map((focus): Case => [{ focus, faults: 'none', messages: true }, 8, first]),
    [{ shards: 2, messages: true }, 12, first],
    [{ shards: 2, faults: 'of handovers' }, 12, first],
    [{ shards: 3, faults: 'of leaders' }, 12, first],
    [{ shards: 3 }, 12, first],
    [{ shards: 2, busy: true }, 2, first],
  ])(
    'with %j, %i seeds from %i on',
    async (options, seeds, from) => {
      for (let seed = from; seed < from + seeds; seed++) await mustBeClean({ seed, ...options });
    },
    timeoutMs,
  );
});

it('ends a loop that lets no time pass', async () => {
  const scheduler = new Scheduler();
  const loop = async (): Promise<never> => {
    for (;;) {
      scheduler.monotonic();
      await Promise.resolve();
    }
  };
  scheduler.after(0, () => {
    // As a controller logs the error of a reconcile.
    loop().catch(() => undefined);
  });
  await expect(scheduler.step(1)).rejects.toThrow('livelock');
});

describe('a seed', () => {
  it('is the same run every time', async () => {
    for (const seed of [3, 11, 83, 193]) {
      const [one, other] = [await simulate({ seed }), await simulate({ seed, keepLines: 10 })];
      expect(other).toMatchObject({ hash: one.hash, steps: one.steps, durationMs: one.durationMs });
    }
  });

  it('is another run than the next one', async () => {
    const [one, other] = [await simulate({ seed: 1 }), await simulate({ seed: 2 })];
    expect(other.hash).not.toBe(one.hash);
  });
});
