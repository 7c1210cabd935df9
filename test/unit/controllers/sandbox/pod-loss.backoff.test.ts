import { PodBackoff } from '../../../../src/controllers/sandbox/pod-loss.ts';
import { noonMs } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const minute = 60_000;
let clock: VirtualClock;
let backoff: PodBackoff;
beforeEach(() => {
  clock = new VirtualClock(noonMs);
  backoff = new PodBackoff({ clock });
});

/** Pods that end at once, each made as soon as it may be; returns the delay of each successor. */
async function refused(count: number): Promise<number[]> {
  const waits = [];
  for (let index = 0; index < count; index++) {
    backoff.ended('a', `pod-${clock.monotonic()}-${index}`, 10);
    waits.push(backoff.waitMs('a'));
    await clock.advance(backoff.waitMs('a'));
  }
  return waits;
}

it('doubles from 5 s to 5 min', async () => {
  expect(await refused(8)).toEqual([
    5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000,
  ]);
});

it('counts each pod once, however often it is seen', () => {
  backoff.ended('a', 'pod', 10);
  backoff.ended('a', 'pod', 20);
  expect(backoff.waitMs('a')).toBe(5_000);
});

it('asks nothing of a pod that has lived for long, and forgets those before it', async () => {
  await refused(4);
  backoff.ended('a', 'old', 10 * minute);
  expect(backoff.waitMs('a')).toBe(0);
  expect(await refused(1)).toEqual([5_000]);
});

it('forgets what is long ago', async () => {
  await refused(4);
  await clock.advance(10 * minute);
  expect(await refused(1)).toEqual([5_000]);
});

it('is of each sandbox alone', async () => {
  await refused(4);
  expect(backoff.waitMs('b')).toBe(0);
});
