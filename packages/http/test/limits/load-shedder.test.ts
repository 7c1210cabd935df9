import { Refusal } from '../../src/refusal.ts';
import { quarterShares } from './quarter-shares.ts';
import { LoadShedder } from '../../src/limits/load-shedder.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { VirtualClock } from '../../../../test/support/virtual-clock.ts';

const metrics = { shedRequests: { inc: () => undefined } };
const places = (total: number) => ({
  requests: quarterShares(total),
  writes: quarterShares(total * 0.75),
});
let owners = 0;
const someone = () => `owner-${(owners += 1)}`;
/** The answer; undefined where the request is admitted. */
function refusalOf(enter: () => unknown): string | undefined {
  try {
    enter();
    return undefined;
  } catch (error) {
    return error instanceof Refusal
      ? `${error.code} ${error.headers['retry-after'] ?? ''}`
      : String(error);
  }
}

function closes(enter: () => unknown): boolean {
  try {
    enter();
    return false;
  } catch (error) {
    return error instanceof Refusal && error.headers['connection'] === 'close';
  }
}

describe('the guard against overload', () => {
  it('counts what is under way, and refuses writes before reads', () => {
    const guard = new LoadShedder({ ...places(4), clock: new VirtualClock(), metrics });
    const leave = [
      guard.enter(someone(), 'writes'),
      guard.enter(someone(), 'writes'),
      guard.enter(someone(), 'reads'),
    ];
    expect(refusalOf(() => guard.enter(someone(), 'writes'))).toBe('overloaded 2');
    leave.push(guard.enter(someone(), 'reads'));
    expect(refusalOf(() => guard.enter(someone(), 'reads'))).toBe('overloaded 1');
    for (const end of [...leave, ...leave]) end();
    expect(guard.underWay).toBe(0);
    guard.enter(someone(), 'writes')();
  });

  it('says what it would refuse before anything is spent on it, and begins nothing by that', () => {
    const guard = new LoadShedder({ ...places(4), clock: new VirtualClock(), metrics });
    const leave = [
      guard.enter(someone(), 'writes'),
      guard.enter(someone(), 'writes'),
      guard.enter(someone(), 'writes'),
    ];
    expect(guard.refusal('writes')).toMatchObject({
      code: 'overloaded',
      headers: { 'retry-after': '2' },
    });
    expect(guard.refusal('reads')).toBeUndefined();
    expect(guard.underWay).toBe(3);
    for (const end of leave) end();
    expect(guard.refusal('writes')).toBeUndefined();
    expect(guard.underWay).toBe(0);
  });

  it('lets few writes of an owner in at once while they are slow, and as many as ever once they are quick', async () => {
    const clock = new VirtualClock();
    const guard = new LoadShedder({ ...places(2000), clock, metrics });
    const enter = (count: number) =>
      Array.from({ length: count }, () => guard.enter('alice', 'writes'));
    const take = async (leave: readonly (() => void)[], milliseconds: number) => {
      await clock.advance(milliseconds);
      for (const end of leave) end();
    };
    await take(enter(100), 900);
    await take(enter(100), 3000);
    const few = enter(16);
    expect(refusalOf(() => guard.enter('alice', 'writes'))).toBe('share-exceeded 1');
    guard.enter('alice', 'reads')();
    guard.enter('bob', 'writes')();
    await take(few, 100);
    await take(enter(16), 100);
    await take(enter(16), 100);
    await take(enter(16), 100);
    await take(enter(100), 100);
    expect(guard.underWay).toBe(0);
  });

  it('gives one owner a quarter of everything, and less of it for writes', () => {
    const guard = new LoadShedder({ ...places(16), clock: new VirtualClock(), metrics });
    const leave = Array.from({ length: 3 }, () => guard.enter('alice', 'writes'));
    expect(refusalOf(() => guard.enter('alice', 'writes'))).toBe('share-exceeded 1');
    leave.push(guard.enter('alice', 'reads'));
    expect(refusalOf(() => guard.enter('alice', 'reads'))).toBe('share-exceeded 1');
    leave.push(guard.enter('bob', 'writes'));
    for (const end of [...leave, ...leave]) end();
    expect(guard.underWay).toBe(0);
  });

  /** A clock whose timers fire late by as much as the test says. */
  class BusyClock extends VirtualClock {
    lateMs = 0;
    override after(delayMs: number, callback: () => void): ReturnType<Clock['after']> {
      return super.after(delayMs + this.lateMs, callback);
    }
  }

  it.each([
    [0, 'nothing', []],
    [400, 'nothing', []],
    [600, 'writes', ['writes']],
    [2500, 'everything', ['writes', 'reads']],
  ] as const)(
    'refuses, with an event loop that is %i ms late, %s',
    async (lateMs, _what, refused) => {
      const clock = new BusyClock();
      clock.lateMs = lateMs;
      const guard = new LoadShedder({ ...places(Infinity), maxDelayMs: 500, clock, metrics });
      guard.start();
      await clock.advance(4 * (lateMs + 50));
      const isRefused = (kind: 'reads' | 'writes') =>
        refusalOf(() => guard.enter(someone(), kind)()) !== undefined;
      expect((['writes', 'reads'] as const).filter(isRefused)).toEqual(refused);
      clock.lateMs = 0;
      await clock.advance(lateMs + 500);
      expect((['writes', 'reads'] as const).filter(isRefused)).toEqual([]);
      guard.stop();
      expect(clock.timers).toBe(0);
    },
  );

  it('refuses everything, and closes connections, while requests come so thick that no timer gets its turn', async () => {
    const clock = new BusyClock();
    clock.lateMs = 5000;
    const guard = new LoadShedder({ ...places(Infinity), maxDelayMs: 500, clock, metrics });
    guard.start();
    await clock.advance(600);
    for (let count = 0; count < 1024; count++) guard.enter(someone(), 'reads')();
    expect(closes(() => guard.enter(someone(), 'reads'))).toBe(true);
    expect(closes(() => guard.enter(someone(), 'writes'))).toBe(true);
    clock.lateMs = 0;
    await clock.advance(5000);
    guard.enter(someone(), 'reads')();
    guard.stop();
  });

  it('takes a single pause for none', async () => {
    const clock = new BusyClock();
    const guard = new LoadShedder({ ...places(Infinity), maxDelayMs: 500, clock, metrics });
    guard.start();
    await clock.advance(200);
    clock.lateMs = 5000;
    await clock.advance(50);
    clock.lateMs = 0;
    await clock.advance(5050);
    guard.enter(someone(), 'writes')();
    guard.stop();
  });
});
