import fc from 'fast-check';
import {
  isEqual,
  generateKey,
  hashKey,
  isWellFormedKey,
} from '../../../../src/gateway/auth/key.ts';

describe('API keys', () => {
  it('consist of co_, 32 random digits and a checksum of 6', () => {
    expect(generateKey()).toMatch(/^co_[0-9A-Za-z]{38}$/);
  });

  it('are different each time and well-formed', () => {
    const keys = Array.from({ length: 200 }, () => generateKey());
    expect(new Set(keys).size).toBe(200);
    expect(keys.every(isWellFormedKey)).toBe(true);
  });

  it('use every digit about as often', () => {
    const counts = new Map<string, number>();
    for (let index = 0; index < 500; index++) {
      for (const digit of generateKey().slice(3, 35))
        counts.set(digit, (counts.get(digit) ?? 0) + 1);
    }
    expect(counts.size).toBe(62);
    // 258 are expected of each.
    expect(Math.max(...counts.values())).toBeLessThan(350);
    expect(Math.min(...counts.values())).toBeGreaterThan(170);
  });

  it('stay secure when the source of randomness gives bytes that must be thrown away', () => {
    let calls = 0;
    const random = (bytes: number) => Buffer.alloc(bytes, (calls += 1) % 2 === 1 ? 255 : calls);
    expect(isWellFormedKey(generateKey(random))).toBe(true);
  });

  it('are not well-formed any more with one character changed', () => {
    fc.assert(
      fc.property(
        fc.nat(37),
        fc.constantFrom('0', '1', '9', 'A', 'B', 'Z', 'a', 'y', 'z'),
        (position, digit) => {
          const key = generateKey();
          const index = 3 + position;
          fc.pre(key[index] !== digit);
          expect(isWellFormedKey(key.slice(0, index) + digit + key.slice(index + 1))).toBe(false);
        },
      ),
    );
  });

  it.each([
    ['nothing', ''],
    ['another prefix', `sk_${generateKey().slice(3)}`],
    ['too few digits', 'co_abc'],
    ['a space at the end', `${generateKey()} `],
    ['a line feed at the end', `${generateKey()}\n`],
  ])('refuse %s', (_case, text) => {
    expect(isWellFormedKey(text)).toBe(false);
  });

  it('are compared by their hashes', () => {
    const key = generateKey();
    expect(isEqual(hashKey(key), hashKey(key))).toBe(true);
    expect(isEqual(hashKey(key), hashKey(generateKey()))).toBe(false);
    expect(isEqual(hashKey(key), 'short')).toBe(false);
  });
});
