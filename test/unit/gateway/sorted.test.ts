import fc from 'fast-check';
import { pageOf, type Position } from '../../../src/gateway/paging/keyset.ts';
import { following, sortedBy } from '../../../src/gateway/paging/sorted.ts';

/** Few keys, so that many items share one. */
const position = fc.record({
  key: fc.constantFrom('a', 'b', 'c'),
  id: fc.string({ unit: fc.constantFrom('0', '1', '9', 'a'), minLength: 1, maxLength: 3 }),
});
const positions = fc.uniqueArray(position, { selector: ({ id }) => id, maxLength: 40 });
const itself = (item: Position) => item;

it('what follows a position in a sorted list decides about the same page as the whole list in any order', () => {
  fc.assert(
    fc.property(
      positions,
      fc.option(position, { nil: undefined }),
      fc.integer({ min: 1, max: 10 }),
      fc.boolean(),
      fc.constantFrom('', '1', '9'),
      (items, after, limit, descending, digit) => {
        const matches = ({ id }: Position) => id.includes(digit);
        const request = { descending, limit, after };
        const whole = pageOf({ ...request, items: items.filter(matches), positionOf: itself });
        const candidates = following(sortedBy(items, itself), { ...request, matches }).map(({ item }) => item);
        expect(candidates.length).toBeLessThanOrEqual(limit + 1);
        expect(pageOf({ ...request, items: candidates, positionOf: itself })).toEqual(whole);
      },
    ),
  );
});
