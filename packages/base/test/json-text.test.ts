import { isDeeperThan, repeatedNames } from '../src/json-text.ts';

it.each([
  ['1', 0],
  ['"[[["', 0],
  ['[]', 1],
  ['[[],[]]', 2],
  ['{"a":[{"b":"]"}],"c":[]}', 3],
])('%s has %i levels', (json, depth) => {
  const value: unknown = JSON.parse(json);
  expect(isDeeperThan(value, depth)).toBe(false);
  expect(depth > 0 && isDeeperThan(value, depth - 1)).toBe(depth > 0);
});

it('finds in a million levels that they are too many', () => {
  const value: unknown = JSON.parse('['.repeat(1_000_000) + ']'.repeat(1_000_000));
  expect(isDeeperThan(value, 256)).toBe(true);
});

it.each([
  ['{"a":1,"b":{"a":1},"c":[{"a":"a"},{"a":"a,"}]}', []],
  ['{"a":"a","a":"a"}', ['a']],
  ['[{"a":1},{"b":[0,{"c":1,"c":2,"c":3}]}]', ['[1].b[1].c', '[1].b[1].c']],
  [String.raw`{"\\\"a":1,"\\\"\u0061":2}`, [String.raw`\"a`]],
  ['{"__proto__":1,"__proto__":2}', ['__proto__']],
  ['"a,b"', []],
])('%s repeats the names %j', (json, names) => {
  expect([...repeatedNames(json)]).toEqual(names);
});
