import { ExpiringCache } from '../../../../src/gateway/git/expiring-cache.ts';
import { systemClock } from '../../../../packages/kube/src/clock.ts';

describe('a cache of what expires', () => {
  let now = 0;
  const cacheOf = (maxEntries: number, maxBytes = Infinity) =>
    new ExpiringCache<string>({
      clock: { ...systemClock, monotonic: () => now },
      maxEntries,
      maxBytes,
    });

  it('forgets a value when its time is over, and counts it no more', () => {
    const cache = cacheOf(10);
    cache.set('a', 'A', 100, 7);
    now += 99;
    expect(cache.get('a')).toBe('A');
    now += 1;
    expect(cache.get('a')).toBeUndefined();
    expect([cache.size, cache.bytes]).toEqual([0, 0]);
  });

  it('lets go what was used longest ago when there are too many', () => {
    const cache = cacheOf(2);
    cache.set('a', 'A', 100, 1);
    cache.set('b', 'B', 100, 1);
    cache.get('a');
    cache.set('c', 'C', 100, 1);
    expect(['a', 'b', 'c'].map((key) => cache.get(key))).toEqual(['A', undefined, 'C']);
  });

  it('lets go as many as it takes when they are too large, a single one too', () => {
    const cache = cacheOf(10, 10);
    cache.set('a', 'A', 100, 5);
    cache.set('b', 'B', 100, 5);
    cache.set('c', 'C', 100, 6);
    expect([cache.get('a'), cache.get('b'), cache.get('c'), cache.bytes]).toEqual([
      undefined,
      undefined,
      'C',
      6,
    ]);
    cache.set('d', 'D', 100, 11);
    expect([cache.size, cache.bytes]).toEqual([0, 0]);
  });

  it('counts a value that is set again once', () => {
    const cache = cacheOf(10, 10);
    cache.set('a', 'A', 100, 8);
    cache.set('a', 'B', 100, 9);
    expect([cache.get('a'), cache.size, cache.bytes]).toEqual(['B', 1, 9]);
  });
});
