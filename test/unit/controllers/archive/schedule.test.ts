import { ArchiveSchedule, extendIntervalMs } from '../../../../src/controllers/archive/schedule.ts';
import { noonMs } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const scheduled = () => {
  const clock = new VirtualClock(noonMs);
  return { clock, schedule: new ArchiveSchedule({ clock }) };
};

it('makes a first read due at once, and each further one after the interval', async () => {
  const { clock, schedule } = scheduled();
  expect(schedule.observe('c', 'first')).toBe(0);
  schedule.begin('c');
  expect(schedule.isBehind('c')).toBe(false);
  await clock.advance(3_000);
  expect(schedule.observe('c', 'second')).toBe(extendIntervalMs - 3_000);
  expect(schedule.isBehind('c')).toBe(true);
  await clock.advance(extendIntervalMs);
  expect(schedule.waitMs('c')).toBe(0);
});

it('makes no read due for a report that it knows', () => {
  const { schedule } = scheduled();
  schedule.observe('c', 'same');
  schedule.begin('c');
  expect(schedule.observe('c', 'same')).toBeUndefined();
  expect(schedule.observe('other', 'same')).toBe(0);
});

it('repeats a read at once that has failed, and forgets what it knew', () => {
  const { schedule } = scheduled();
  schedule.observe('c', 'first');
  schedule.begin('c');
  schedule.retry('c');
  expect(schedule.waitMs('c')).toBe(0);
  schedule.begin('c');
  schedule.forget('c');
  expect(schedule.observe('c', 'first')).toBe(0);
});
