import {
  ArchiveSchedule,
  endIntervalMs,
  extendIntervalMs,
} from '../../../../src/controllers/archive/reconcile.ts';
import { noonMs } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const scheduled = () => {
  const clock = new VirtualClock(noonMs);
  return { clock, schedule: new ArchiveSchedule({ clock }) };
};

it('makes a first read due at once, and each further one after the interval', async () => {
  const { clock, schedule } = scheduled();
  expect(schedule.observe('c', 'first', false)).toBe(0);
  schedule.begin('c');
  expect(schedule.isBehind('c')).toBe(false);
  await clock.advance(3_000);
  expect(schedule.observe('c', 'second', false)).toBe(extendIntervalMs - 3_000);
  expect(schedule.isBehind('c')).toBe(true);
  await clock.advance(extendIntervalMs);
  expect(schedule.waitMs('c')).toBe(0);
});

it('puts the first read of an archive that begins off once, and no longer than the end of a run', async () => {
  const { clock, schedule } = scheduled();
  schedule.expect('c');
  expect(schedule.observe('c', 'runs', true)).toBe(extendIntervalMs);
  await clock.advance(1_000);
  schedule.expect('c');
  expect(schedule.observe('c', 'done', false)).toBe(endIntervalMs - 1_000);
  await clock.advance(endIntervalMs);
  schedule.begin('c');
  schedule.retry('c');
  schedule.expect('c');
  expect(schedule.waitMs('c')).toBe(0);
});

it('makes a read due soon when a run ends, because a sandbox may be deleted then', async () => {
  const { clock, schedule } = scheduled();
  schedule.observe('c', 'runs', true);
  schedule.begin('c');
  await clock.advance(1_000);
  expect(schedule.observe('c', 'runs on', true)).toBe(extendIntervalMs - 1_000);
  expect(schedule.observe('c', 'done', false)).toBe(endIntervalMs - 1_000);
  await clock.advance(endIntervalMs);
  schedule.begin('c');
  expect(schedule.observe('c', 'idle', false)).toBe(extendIntervalMs);
});

it('makes a read due soon also when the run that has ended has a second report, or had none since the last read', async () => {
  const { clock, schedule } = scheduled();
  schedule.observe('c', 'runs', true);
  schedule.begin('c');
  await clock.advance(1_000);
  expect(schedule.observe('c', 'done', false)).toBe(endIntervalMs - 1_000);
  await clock.advance(1_000);
  expect(schedule.observe('c', 'usage of the end', false)).toBe(endIntervalMs - 2_000);
  expect(schedule.observe('c', 'runs again', true)).toBe(endIntervalMs - 2_000);
});

it('makes no read due for a report that it knows', () => {
  const { schedule } = scheduled();
  schedule.observe('c', 'same', false);
  schedule.begin('c');
  expect(schedule.observe('c', 'same', false)).toBeUndefined();
  expect(schedule.observe('other', 'same', false)).toBe(0);
});

it('repeats a read at once that has failed, and forgets what it knew', () => {
  const { schedule } = scheduled();
  schedule.observe('c', 'first', false);
  schedule.begin('c');
  schedule.retry('c');
  expect(schedule.waitMs('c')).toBe(0);
  schedule.begin('c');
  schedule.forget('c');
  expect(schedule.observe('c', 'first', false)).toBe(0);
});
