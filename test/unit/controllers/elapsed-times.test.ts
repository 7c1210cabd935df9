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

describe('the beginning of a stored time', () => {
  const hour = 3_600_000;
  const seeing = (sinceMs: number) => {
    const clock = new VirtualClock(noonMs);
    const times = new ElapsedTimes({ clock });
    return { clock, age: () => clock.monotonic() - times.beganAt('a', sinceMs) };
  };

  it.each([hour, -hour])(
    'keeps the age of what was seen before the clock jumped by %d ms',
    (by) => {
      const { clock, age } = seeing(noonMs - 60_000);
      expect(age()).toBe(60_000);
      clock.jumpWallClock(by);
      expect(age()).toBe(60_000);
    },
  );

  it.each([hour, -hour])('is as young as what is stored after a jump by %d ms', (by) => {
    const { clock, age } = seeing(noonMs + by);
    clock.jumpWallClock(by);
    expect(age()).toBe(0);
  });

  it('counts a time of the future from when it was first seen', async () => {
    const { clock, age } = seeing(noonMs + hour);
    expect(age()).toBe(0);
    await clock.advance(5_000);
    expect(age()).toBe(5_000);
  });
});

describe('the wait before a deletion', () => {
  const watching = () => {
    const clock = new VirtualClock();
    const times = new ElapsedTimes({ clock });
    const check = async (restMs: number, dueAt = 0) => {
      const waitMs = times.deletionWaitMs('a', dueAt);
      await clock.advance(restMs);
      return waitMs;
    };
    return { clock, times, check };
  };

  it('ends after checks of two minutes have seen the object as due', async () => {
    const { check } = watching();
    const waits: number[] = [];
    for (let checks = 0; checks < 7; checks++) waits.push(await check(20_000));
    expect(waits).toEqual([20_000, 20_000, 20_000, 20_000, 20_000, 20_000, 0]);
  });

  it.each<[string, (scene: ReturnType<typeof watching>) => unknown, number?]>([
    ['it was not due in between', ({ times }) => times.forget('a')],
    ['nothing has checked it for more than a minute', ({ check }) => check(60_001)],
    ['the wall clock was set', ({ clock }) => clock.jumpWallClock(-6_000)],
    ['it is due since another time', () => undefined, 1],
  ])('begins anew when %s', async (_when, change, dueAt = 0) => {
    const scene = watching();
    for (let checks = 0; checks < 5; checks++) await scene.check(20_000);
    await change(scene);
    for (let checks = 0; checks < 6; checks++)
      expect(await scene.check(20_000, dueAt)).toBe(20_000);
    expect(await scene.check(0, dueAt)).toBe(0);
  });
});
