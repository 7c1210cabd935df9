import { TokenBuckets } from '../../src/limits/rate-limits.ts';
import { VirtualClock } from '../../../../test/support/virtual-clock.ts';

describe('token buckets', () => {
  const buckets = (options: Partial<ConstructorParameters<typeof TokenBuckets>[0]> = {}) => {
    const clock = new VirtualClock();
    return {
      clock,
      bucket: new TokenBuckets({ clock, perSecond: 2, burst: 4, capacity: 10, ...options }),
    };
  };
  const allowed = (bucket: TokenBuckets, name: string, times: number) =>
    Array.from({ length: times }, () => bucket.take(name).allowed);

  it('allow a burst, then refuse', () => {
    const { bucket } = buckets();
    expect(allowed(bucket, 'a', 6)).toEqual([true, true, true, true, false, false]);
    expect(allowed(bucket, 'b', 1)).toEqual([true]);
  });

  it('fill again at their rate, and no further than the burst', async () => {
    const { clock, bucket } = buckets();
    allowed(bucket, 'a', 4);
    await clock.advance(500);
    expect(allowed(bucket, 'a', 2)).toEqual([true, false]);
    await clock.advance(3_600_000);
    expect(allowed(bucket, 'a', 5)).toEqual([true, true, true, true, false]);
  });

  it('may be charged more afterwards, and are paid back at their rate', async () => {
    const { clock, bucket } = buckets();
    allowed(bucket, 'a', 1);
    bucket.charge('a', 5);
    expect(bucket.take('a')).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 1500 });
    await clock.advance(1500);
    expect(allowed(bucket, 'a', 2)).toEqual([true, false]);
  });

  it('say when to come again, and a client that does gets in', async () => {
    const { clock, bucket } = buckets();
    allowed(bucket, 'a', 4);
    const { retryAfterMs, fullAfterMs, remaining } = bucket.take('a');
    expect([retryAfterMs, fullAfterMs, remaining]).toEqual([500, 2000, 0]);
    await clock.advance(retryAfterMs);
    expect(bucket.take('a')).toMatchObject({ allowed: true, retryAfterMs: 0 });
  });

  it('distinguish the first refusal from the others', async () => {
    const { clock, bucket } = buckets({ burst: 1 });
    const firsts = () => Array.from({ length: 3 }, () => bucket.take('a').isFirstRefusal);
    expect(firsts()).toEqual([false, true, false]);
    await clock.advance(1000);
    expect(firsts()).toEqual([false, true, false]);
  });

  it('take no more memory than for their maximum of names', () => {
    const { bucket } = buckets();
    for (let name = 0; name < 10_000; name++) bucket.take(String(name));
    expect(bucket.size).toBe(10);
  });
});
