import { focusNames } from './focus.ts';
import { Scheduler } from './scheduler.ts';
import { mustAllBeClean, ranges, timeoutMs } from './seed-ranges.ts';
import { simulate } from './simulation.ts';

mustAllBeClean([
  ...ranges({}, 84, 21),
  [{ world: 'plain' }, 9],
  [{ world: 'single-owner' }, 9],
  [{ faults: 'of leaders' }, 9],
  [{ faults: 'of leaders', world: 'plain' }, 4],
  [{ faults: 'none' }, 9],
  ...focusNames.flatMap((focus) => ranges({ focus }, 3, 3)),
]);

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
  it(
    'is the same run every time',
    async () => {
      for (const seed of [3, 11, 83, 193]) {
        const [one, other] = [await simulate({ seed }), await simulate({ seed, keepLines: 10 })];
        expect(other).toMatchObject({
          hash: one.hash,
          steps: one.steps,
          durationMs: one.durationMs,
        });
      }
    },
    timeoutMs,
  );

  it(
    'is another run than the next one',
    async () => {
      const [one, other] = [await simulate({ seed: 1 }), await simulate({ seed: 2 })];
      expect(other.hash).not.toBe(one.hash);
    },
    timeoutMs,
  );
});
