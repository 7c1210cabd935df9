import { isDeeperThan } from '../src/json-depth.ts';

it.each([
  ['1', 0],
  ['"[[["', 0],
  ['"a\\"[["', 0],
  ['[]', 1],
  ['[[],[]]', 2],
  ['{"a":[{"b":"]"}],"c":[]}', 3],
])('%s has %i levels', (json, depth) => {
  expect(isDeeperThan(json, depth)).toBe(false);
  expect(isDeeperThan(json, depth - 1)).toBe(depth > 0);
});

it('ends for a text without an end', () => {
  expect(isDeeperThan('["a', 1)).toBe(false);
  expect(isDeeperThan('"\\', 0)).toBe(false);
  expect(isDeeperThan('['.repeat(1_000_000), 999_999)).toBe(true);
});
