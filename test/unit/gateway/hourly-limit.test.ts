import { HourlyLimit } from '../../../src/gateway/limits/hourly-limit.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const minute = 60_000;

describe('a limit of an hour', () => {
  it('counts each key for itself, and what was refused for nothing', async () => {
    const clock = new VirtualClock();
    const limit = new HourlyLimit(clock);
    const take = (key: string, max = 2) => limit.take(key, max);
    expect([take('one'), take('two'), take('one'), take('one')]).toEqual([true, true, true, false]);
    expect(take('two')).toBe(true);
    await clock.advance(60 * minute - 1);
    expect([take('one'), take('two')]).toEqual([false, false]);
    await clock.advance(1);
    expect([take('one'), take('one'), take('one')]).toEqual([true, true, false]);
  });

  it('is the one of each call, because a template changes', () => {
    const limit = new HourlyLimit(new VirtualClock());
    expect([1, 1, 3, 3, 3, 1].map((max) => limit.take('one', max))).toEqual([
      ...[true, false, true, true, false, false],
    ]);
  });
});
