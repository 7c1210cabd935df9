import * as fc from 'fast-check';
import { ByteCache } from '../../../../src/gateway/lookup/start-texts.ts';

const aCache = () => new ByteCache<string>({ maxBytes: 100, maxOwnerBytes: 60 });

describe('a cache that is bounded in bytes', () => {
  it('gives what was set last', () => {
    const cache = aCache();
    cache.set('alice', 'a', 'one', 10);
    cache.set('alice', 'a', 'two', 20);
    expect([cache.get('a'), cache.get('b'), cache.bytes, cache.size]).toEqual([
      'two',
      undefined,
      20,
      1,
    ]);
  });

  it('drops what an owner has not used for longest, beyond the share of that owner', () => {
    const cache = aCache();
    for (const key of ['a', 'b', 'c']) cache.set('alice', key, key, 20);
    cache.get('a');
    cache.set('alice', 'd', 'd', 20);
    expect(['a', 'b', 'c', 'd'].filter((key) => cache.get(key) !== undefined)).toEqual([
      'a',
      'c',
      'd',
    ]);
  });

  it("leaves others' values alone while an owner fills its share", () => {
    const cache = aCache();
    cache.set('bob', 'b', 'b', 40);
    for (let index = 0; index < 100; index++) cache.set('alice', `a${index}`, 'a', 20);
    expect(cache.get('b')).toBe('b');
  });

  it('keeps no value that is larger than a share', () => {
    const cache = aCache();
    cache.set('alice', 'a', 'small', 10);
    cache.set('alice', 'a', 'large', 61);
    expect([cache.get('a'), cache.bytes]).toEqual([undefined, 0]);
  });

  it('never exceeds a bound, and counts right', () => {
    const step = fc.record({
      owner: fc.constantFrom('a', 'b', 'c'),
      key: fc.nat(8),
      bytes: fc.integer({ min: 1, max: 70 }),
      drop: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const cache = aCache();
        const set = new Map<string, { owner: string; bytes: number }>();
        for (const { owner, key, bytes, drop } of steps) {
          const name = `${owner}${key}`;
          if (drop) cache.delete(name);
          else cache.set(owner, name, name, bytes);
          set.set(name, { owner, bytes });
          const present = [...set].filter(([each]) => cache.get(each) !== undefined);
          const sum = (of?: string) =>
            present.reduce(
              (total, [, entry]) =>
                total + (of === undefined || entry.owner === of ? entry.bytes : 0),
              0,
            );
          expect([cache.size, cache.bytes]).toEqual([present.length, sum()]);
          expect(cache.bytes).toBeLessThanOrEqual(100);
          for (const each of ['a', 'b', 'c']) expect(sum(each)).toBeLessThanOrEqual(60);
        }
      }),
    );
  });
});
