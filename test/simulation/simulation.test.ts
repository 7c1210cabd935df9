import { mustBeClean } from './expectations.ts';
import { Scheduler } from './scheduler.ts';
import { simulate } from './simulation.ts';
import type { SimulationOptions } from './stage.ts';

const seeds = 500;
const batch = 50;
const timeoutMs = 300_000;

describe('the whole product under simulated faults', () => {
  it.each(
    Array.from({ length: seeds / batch }, (_, index) => [index * batch + 1, (index + 1) * batch]),
  )(
    'keeps its promises with seeds %i to %i',
    async (first, last) => {
      for (let seed = first; seed <= last; seed++) await mustBeClean({ seed });
    },
    timeoutMs,
  );

  it.each([
    534, 649, 737, 738, 792, 799, 822, 974, 1296, 1840, 1857, 2605, 3040, 5100, 6743, 7639, 10896,
    10913, 13154, 14802, 15590, 16113,
  ])(
    'keeps them with seed %i, which found a mistake before agents notified, hung or stalled',
    (seed) => mustBeClean({ seed, world: 'plain' }),
    timeoutMs,
  );

  it.each([
    ['stores that a run is stuck before it is interrupted', 495],
    ['does not take the last event of an agent for the beginning of its run', 446],
    ['takes no lost container for a run that was interrupted', 1855],
    ['believes no record of an agent that is older than the interrupt of its run', 226],
    ['believes an agent whose run was resumed by a leader whose clock was ahead', 5000434],
  ])('%s (seed %i)', (_case, seed) => mustBeClean({ seed, world: 'single-owner' }), timeoutMs);

  it(
    'keeps them with seed 20993, which found a mistake with frozen leaders',
    () => mustBeClean({ seed: 20993, faults: 'of leaders', world: 'plain' }),
    timeoutMs,
  );

  it(
    'keeps them while leaders are frozen past their lease',
    async () => {
      for (let seed = 1; seed <= 25; seed++) await mustBeClean({ seed, faults: 'of leaders' });
    },
    timeoutMs,
  );

  it(
    'keeps them when nothing goes wrong',
    async () => {
      for (let seed = 1; seed <= 25; seed++) await mustBeClean({ seed, faults: 'none' });
    },
    timeoutMs,
  );
});

describe('the whole product while users send messages', () => {
  it.each<[NonNullable<SimulationOptions['faults']>, number, number]>([
    ['all', 1, 50],
    ['all', 51, 100],
    ['all', 101, 150],
    ['of leaders', 1, 20],
    ['none', 1, 20],
  ])(
    'keeps its promises under faults: %s, with seeds %i to %i',
    async (faults, first, last) => {
      for (let seed = first; seed <= last; seed++)
        await mustBeClean({ seed, faults, messages: true });
    },
    timeoutMs,
  );

  it.each<[string, number, NonNullable<SimulationOptions['faults']>]>([
    [
      'accepts the report of the right conversation when one of the same id was deleted',
      62,
      'of leaders',
    ],
    [
      'sends nothing again that may wait in the container after the one it was sent to',
      4668,
      'all',
    ],
  ])(
    '%s (seed %i)',
    (_case, seed, faults) => mustBeClean({ seed, faults, messages: true, world: 'plain' }),
    timeoutMs,
  );

  it(
    'takes no lost container for a stop from before the sandbox had run (seed 5000083)',
    () => mustBeClean({ seed: 5000083, messages: true, world: 'single-owner' }),
    timeoutMs,
  );

  it(
    'stops the pod of a sandbox that has no status yet (seed 2)',
    () => mustBeClean({ seed: 2, messages: true }),
    timeoutMs,
  );

  it(
    'lets a message end the count of automatic resumes also when it was sent before the last of them (seed 7002245)',
    () => mustBeClean({ seed: 7002245, messages: true }),
    timeoutMs,
  );
});

describe('the whole product in shards of namespaces', () => {
  it.each<[NonNullable<SimulationOptions['faults']>, number, boolean]>([
    ['all', 2, true],
    ['of handovers', 2, false],
    ['of leaders', 3, false],
    ['all', 3, false],
  ])(
    'keeps its promises in each namespace under faults: %s, with %i shards',
    async (faults, shards, messages) => {
      for (let seed = 1; seed <= 12; seed++) await mustBeClean({ seed, faults, shards, messages });
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
