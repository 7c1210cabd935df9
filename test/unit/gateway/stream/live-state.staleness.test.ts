import { Staleness } from '../../../../src/gateway/stream/live-state.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const aWatch = () => {
  const clock = new VirtualClock();
  const caches = [
    { freshness: { newsAgeMs: 0, isInterrupted: false } },
    { freshness: { newsAgeMs: 0, isInterrupted: false } },
  ] as const;
  const staleness = new Staleness({ caches, clock });
  staleness.open();
  let calls = 0;
  const forget = staleness.onStale(() => (calls += 1));
  const interrupt = (isInterrupted: boolean) => {
    Object.assign(caches[1], { freshness: { newsAgeMs: 0, isInterrupted } });
  };
  return { clock, staleness, interrupt, forget, calls: () => calls };
};

describe('the staleness of streams', () => {
  it('begins 10 s after an interruption, and ends with it', async () => {
    const { clock, staleness, interrupt, calls } = aWatch();
    interrupt(true);
    await clock.advance(10_000);
    expect(staleness.isStale).toBe(false);
    expect(calls()).toBe(0);
    await clock.advance(2_000);
    expect(staleness.isStale).toBe(true);
    expect(calls()).toBeGreaterThan(0);
    interrupt(false);
    await clock.advance(1_000);
    expect(staleness.isStale).toBe(false);
  });

  it('is not reached by interruptions that are short', async () => {
    const { clock, staleness, interrupt, calls } = aWatch();
    for (let round = 0; round < 5; round++) {
      interrupt(true);
      await clock.advance(9_000);
      interrupt(false);
      await clock.advance(1_000);
    }
    expect(staleness.isStale).toBe(false);
    expect(calls()).toBe(0);
  });

  it('is not reported to streams that are over', async () => {
    const { clock, staleness, interrupt, forget, calls } = aWatch();
    forget();
    interrupt(true);
    await clock.advance(20_000);
    expect(calls()).toBe(0);
    staleness.close();
  });
});
