import { ElapsedTimes } from '../../../src/controllers/elapsed-times.ts';
import { later, noon, noonMs } from '../../support/builders.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** A process whose clock shows this time when it first sees the beginning. */
function observing(sinceMs: number, since = noon) {
  const clock = new VirtualClock(noonMs + sinceMs);
  const times = new ElapsedTimes({ clock });
  const elapsed = () => times.elapsedMs('a', since);
  elapsed();
  return { clock, times, elapsed };
}

it('counts the time that passes', async () => {
  const { clock, elapsed } = observing(0);
  await clock.advance(60_000);
  expect(elapsed()).toBe(60_000);
});

it.each<[string, number]>([
  ['a clock that jumps ahead', 3_600_000],
  ['a clock that jumps back behind the beginning', -3_600_000],
])('counts what this process has seen in spite of %s', async (_sentence, jumpMs) => {
  const { clock, elapsed } = observing(0);
  await clock.advance(10_000);
  clock.jumpWallClock(jumpMs);
  expect(elapsed()).toBe(10_000);
  await clock.advance(5_000);
  expect(elapsed()).toBe(15_000);
});

it('counts for the next leader, whose clock is ahead, from when that has seen it', async () => {
  const { clock, elapsed } = observing(3_600_000);
  expect(elapsed()).toBe(0);
  await clock.advance(10_000);
  expect(elapsed()).toBe(10_000);
});

it('counts anew from another beginning', async () => {
  const { clock, times } = observing(0);
  await clock.advance(60_000);
  expect(times.elapsedMs('a', later(60_000))).toBe(0);
  await clock.advance(1_000);
  expect(times.elapsedMs('a', later(60_000))).toBe(1_000);
});

it('slows a pace down in spite of a clock that is ahead or behind', async () => {
  expect(observing(3_600_000).times.paceMs('a', noon)).toBe(3_600_000);
  const { clock, times } = observing(0, later(3_600_000));
  await clock.advance(10_000);
  expect(times.paceMs('a', later(3_600_000))).toBe(10_000);
});
