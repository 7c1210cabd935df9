import { partOf } from '../../support/part.ts';

const items = ['a', 'b', 'c', 'd', 'e'];

it('all items are chosen where no part is named', () => {
  expect(partOf(items, '')).toEqual(items);
});

it('each item is in one of the parts', () => {
  const parts = ['1/3', '2/3', '3/3'].map((part) => partOf(items, part));
  expect(parts).toEqual([['a', 'd'], ['b', 'e'], ['c']]);
});

it.each(['0/3', '4/3', '1/0', '1', '-1/3', '1/3/3', 'one'])('a part %s is refused', (text) => {
  expect(() => partOf(items, text)).toThrow(
    `PART is one of equal parts, for example 2/3; not ${text}`,
  );
});
