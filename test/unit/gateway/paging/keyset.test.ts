import fc from 'fast-check';
import {
  decodeCursor,
  encodeCursor,
  pageOf,
  sortedBy,
  type Position,
} from '../../../../src/gateway/paging/keyset.ts';

/** Few keys, so that many items share one. */
const positions = fc.uniqueArray(
  fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    id: fc.string({
      unit: fc.constantFrom('0', '1', '2', '9', 'a', 'f'),
      minLength: 1,
      maxLength: 3,
    }),
  }),
  { selector: ({ id }) => id, maxLength: 40 },
);

const sorted = (items: readonly Position[], descending: boolean) => {
  const ascending = items.toSorted((left, right) =>
    `${left.key}/${left.id}` < `${right.key}/${right.id}` ? -1 : 1,
  );
  return descending ? ascending.reverse() : ascending;
};

const page = (
  items: readonly Position[],
  limit: number,
  descending: boolean,
  cursor: string | null,
) =>
  pageOf(
    sortedBy(items, (item) => item),
    { descending, limit, after: decodeCursor('test', cursor ?? undefined) },
  );

describe('pages', () => {
  it('give each item once and in order, whatever their size', () => {
    fc.assert(
      fc.property(
        positions,
        fc.integer({ min: 1, max: 10 }),
        fc.boolean(),
        (items, limit, descending) => {
          const seen: Position[] = [];
          let cursor: string | null = null;
          do {
            const { items: some, next } = page(items, limit, descending, cursor);
            seen.push(...some);
            cursor = encodeCursor('test', next);
            expect(some.length).toBe(cursor === null ? some.length : limit);
          } while (cursor !== null);
          expect(seen).toEqual(sorted(items, descending));
        },
      ),
    );
  });

  it('neither repeat nor skip an item that stays, while others come and go between pages', () => {
    fc.assert(
      fc.property(
        positions,
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        fc.func(fc.boolean()),
        fc.func(fc.boolean()),
        (universe, limit, descending, isStaying, isThere) => {
          const seen: Position[] = [];
          let cursor: string | null = null;
          let round = 0;
          do {
            round += 1;
            const present = universe.filter(({ id }) => isStaying(id) || isThere(id, round));
            const { items: some, next } = page(present, limit, descending, cursor);
            seen.push(...some);
            cursor = encodeCursor('test', next);
          } while (cursor !== null);
          expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length);
          expect(seen).toEqual(sorted(seen, descending));
          const staying = universe.filter(({ id }) => isStaying(id));
          expect(seen.filter(({ id }) => isStaying(id))).toEqual(sorted(staying, descending));
        },
      ),
    );
  });

  it('have only what matches, as many as a page of nothing else would', () => {
    fc.assert(
      fc.property(
        positions,
        fc.integer({ min: 1, max: 10 }),
        fc.boolean(),
        fc.constantFrom('0', '1', '9'),
        (items, limit, descending, digit) => {
          const matches = ({ id }: Position) => id.includes(digit);
          const all = sortedBy(items, (item) => item);
          const expected = page(items.filter(matches), limit, descending, null);
          expect(pageOf(all, { descending, limit, matches })).toEqual(expected);
          expect(expected.items).toEqual(sorted(items.filter(matches), descending).slice(0, limit));
        },
      ),
    );
  });

  it('end without a cursor when the last one is full', () => {
    const items = [
      { key: 'a', id: '1' },
      { key: 'a', id: '2' },
    ];
    expect(page(items, 2, true, null).next).toBeUndefined();
  });
});

describe('cursors', () => {
  it.each([
    ['no base64url', '???'],
    ['no JSON', Buffer.from('hello').toString('base64url')],
    ['another shape', Buffer.from('["test","a"]').toString('base64url')],
    ['nothing', ''],
    ['one of another search', encodeCursor('other', { key: 'a', id: 'b' }) ?? ''],
  ])('refuse %s with 422', (_case, cursor) => {
    expect(() => decodeCursor('test', cursor)).toThrow(
      expect.objectContaining({ status: 422, code: 'invalid-request' }) as Error,
    );
  });

  it('come back as they went', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (key, id) => {
        expect(decodeCursor('test', encodeCursor('test', { key, id }) ?? undefined)).toEqual({
          key,
          id,
        });
      }),
    );
  });
});
