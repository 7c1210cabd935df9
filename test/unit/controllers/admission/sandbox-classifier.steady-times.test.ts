import { SteadyTimes } from '../../../../src/controllers/admission/sandbox-classifier.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const hour = 3_600_000;
const translated = (times: SteadyTimes, ms: number, key = 'a') =>
  times.translate(key, (steady) => steady(ms));

it('continues by the monotonic clock, whatever the wall clock does', async () => {
  const clock = new VirtualClock();
  const times = new SteadyTimes(clock);
  const began = times.now();
  clock.jumpWallClock(5 * hour);
  await clock.advance(1_000);
  expect(times.now()).toBe(began + 1_000);
});

it.each([hour, -hour])(
  'keeps the age of what was stored before the clock jumped by %d ms',
  (jumpMs) => {
    const clock = new VirtualClock();
    const times = new SteadyTimes(clock);
    const stored = clock.now() - 60_000;
    expect(times.now() - translated(times, stored)).toBe(60_000);
    clock.jumpWallClock(jumpMs);
    expect(times.now() - translated(times, stored)).toBe(60_000);
  },
);

it.each([hour, -hour])(
  'takes what is stored after a jump by %d ms for as young as it is',
  async (jumpMs) => {
    const clock = new VirtualClock();
    const times = new SteadyTimes(clock);
    clock.jumpWallClock(jumpMs);
    const stored = clock.now();
    expect(times.now() - translated(times, stored)).toBe(0);
    await clock.advance(5_000);
    expect(times.now() - translated(times, stored)).toBe(5_000);
  },
);

it('counts a time of the future from when it was first seen', async () => {
  const clock = new VirtualClock();
  const times = new SteadyTimes(clock);
  const stored = clock.now() + hour;
  expect(times.now() - translated(times, stored)).toBe(0);
  await clock.advance(5_000);
  expect(times.now() - translated(times, stored)).toBe(5_000);
});

it('forgets what is not asked for any more', () => {
  const clock = new VirtualClock();
  const times = new SteadyTimes(clock);
  const stored = clock.now() - 60_000;
  translated(times, stored);
  times.translate('a', () => undefined);
  clock.jumpWallClock(hour);
  expect(times.now() - translated(times, stored)).toBe(60_000 + hour);
});
