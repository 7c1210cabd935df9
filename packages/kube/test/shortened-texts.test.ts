import * as fc from 'fast-check';
import { shortenTexts } from '../src/shortened-texts.ts';
import { cpuMsOf } from '../../../test/support/cpu-time.ts';

type Within = 'items' | 'object';

const shorten = (json: string | Buffer, within: Within, maxTextBytes = 8) => {
  const shortened = shortenTexts(Buffer.from(json), { within, maxTextBytes });
  return { json: shortened.json.toString('utf8'), removed: shortened.removed };
};

describe('shortened texts', () => {
  it.each<[string, string, string, number]>([
    ['shortens a long text', '"abcdefghij"', '"abcdefgh"', 2],
    ['keeps a text that has exactly the maximum of bytes', '"abcdefgh"', '"abcdefgh"', 0],
    ['keeps whole characters', '"abcdefg€"', '"abcdefg"', 3],
    ['keeps whole characters of four bytes', '"abcde😀f"', '"abcde"', 5],
    ['keeps whole escape sequences', String.raw`"abcdefg\nh"`, '"abcdefg"', 3],
    ['keeps whole escape sequences of six characters', String.raw`"abc\u20ace"`, '"abc"', 7],
    [
      'does not take an escaped quote for an end',
      String.raw`"\"\"\"\"\"\""`,
      String.raw`"\"\"\"\""`,
      4,
    ],
    [
      'does not take an escaped backslash for an escape',
      String.raw`"\\\\\\\\\\"`,
      String.raw`"\\\\\\\\"`,
      2,
    ],
    [
      'shortens texts in arrays and objects',
      '[{"a":"abcdefghij"},"abcdefghi"]',
      '[{"a":"abcdefgh"},"abcdefgh"]',
      3,
    ],
    ['keeps keys', '{"abcdefghijk" : "a"}', '{"abcdefghijk" : "a"}', 0],
    ['takes brackets within a text for text', '["}]{[","abcdefghij"]', '["}]{[","abcdefgh"]', 2],
  ])('%s', (_case, text, shortened, removedBytes) => {
    expect(shorten(`{"items":[{"spec":${text}}]}`, 'items')).toEqual({
      json: `{"items":[{"spec":${shortened}}]}`,
      removed: [removedBytes],
    });
    expect(shorten(`{"object":{"spec":${text}}}`, 'object')).toEqual({
      json: `{"object":{"spec":${shortened}}}`,
      removed: [removedBytes],
    });
  });

  it.each<[string, Within, string]>([
    ['of the status', 'items', '{"items":[{"status":{"a":["abcdefghij"]}}]}'],
    ['of the metadata of a list', 'items', '{"metadata":{"continue":"abcdefghij"},"items":[]}'],
    ['behind the objects', 'items', '{"items":[{}],"metadata":{"a":{"continue":"abcdefghij"}}}'],
    ['of an event beside its object', 'object', '{"type":"abcdefghij","object":{}}'],
    [
      'of an answer that is no list',
      'items',
      '{"kind":"Status","message":"abcdefghij","details":{"a":{"b":"abcdefghij"}}}',
    ],
  ])('keeps texts %s', (_case, within, json) => {
    expect(shorten(json, within).json).toBe(json);
  });

  it('says of each object what it has lost', () => {
    const items = [
      '{"spec":"abcdefghij"}',
      '{}',
      '{"status":"abcdefghij","spec":"abcdefghi","more":{"a":"abcdefghi"}}',
      '{"spec":"abcdefghi"}',
    ];
    expect(
      shorten(`{"kind":"List","items":[${items.join(', ')}],"more":[{}]}`, 'items').removed,
    ).toEqual([2, 0, 2, 1]);
  });

  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.string({
      unit: fc.constantFrom('"', '\\', '\n', '€', '😀', '\ud83d', 'a', '}', ']', ':'),
      maxLength: 200,
    }),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      text,
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      tie('array'),
      tie('object'),
    ),
    array: fc.array(tie('value'), { maxLength: 3 }),
    object: fc.dictionary(text, tie('value'), { maxKeys: 3 }),
  }));
  const object = fc.record({ metadata: value, spec: value, status: value }, { requiredKeys: [] });
  /**
   * JSON as other servers write it: with escape sequences where none are needed, and with white
   * space.
   */
  const written = (one: unknown, isAscii: boolean, space: number): string => {
    const json = JSON.stringify(one, undefined, space);
    return isAscii
      ? json.replaceAll(
          /[<>&\u0080-\uffff]/g,
          (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
        )
      : json;
  };

  /** Whether `short` is `whole` with texts of more than `max` bytes shortened. */
  function expectShortened(short: unknown, whole: unknown, max: number): void {
    if (typeof short === 'string' && typeof whole === 'string') {
      if (short !== whole) {
        expect(whole.startsWith(short)).toBe(true);
        // A character takes up to four bytes, a unit of an escape sequence six.
        expect(Buffer.byteLength(JSON.stringify(whole)) * 6).toBeGreaterThan(max);
        expect(short.length * 6).toBeGreaterThan(max - 12);
      }
    } else if (
      typeof short === 'object' &&
      short !== null &&
      typeof whole === 'object' &&
      whole !== null
    ) {
      expect(Object.keys(short)).toEqual(Object.keys(whole));
      for (const [key, part] of Object.entries(short))
        expectShortened(part, (whole as Record<string, unknown>)[key], max);
    } else {
      expect(short).toBe(whole);
    }
  }

  it('are those of the whole objects without the ends of long texts, and what is removed adds up', () => {
    fc.assert(
      fc.property(
        fc.array(object),
        fc.boolean(),
        fc.constantFrom(0, 2),
        fc.integer({ min: 1, max: 100 }),
        (items, isAscii, space, max) => {
          const list = { kind: 'List', items, metadata: { resourceVersion: '1' } };
          const whole = written(list, isAscii, space);
          const { json, removed } = shorten(whole, 'items', max);
          const expected = JSON.parse(whole) as {
            readonly items: readonly { readonly status?: unknown }[];
          };
          const read = JSON.parse(json) as typeof expected;
          expectShortened(read, expected, max);
          expect(read.items.map(({ status }) => status)).toEqual(
            expected.items.map(({ status }) => status),
          );
          expect(removed.reduce((sum, bytes) => sum + bytes, 0)).toBe(
            Buffer.byteLength(whole) - Buffer.byteLength(json),
          );
          for (const [index, item] of expected.items.entries()) {
            const alone = shorten(`{"object":${written(item, isAscii, space)}}`, 'object', max);
            expect(alone.removed[0] ?? 0).toBe(removed[index] ?? 0);
            expectShortened(
              (JSON.parse(alone.json) as { object: unknown }).object,
              read.items[index],
              max,
            );
          }
        },
      ),
    );
  });

  it('of bytes that are no JSON come to an end', () => {
    const piece = fc.constantFrom(
      '"',
      '\\',
      '{',
      '}',
      '[',
      ']',
      ':',
      ',',
      '{"items":[{',
      '"spec":"',
      'abcdefgh',
      '\\u20',
      '€',
      ' ',
    );
    const pieces = fc.array(fc.oneof(piece, fc.uint8Array({ maxLength: 4 })), { maxLength: 40 });
    fc.assert(
      fc.property(pieces, fc.integer({ min: 1, max: 10 }), (parts, max) => {
        const bytes = Buffer.concat(parts.map((part) => Buffer.from(part as Uint8Array)));
        const { json, removed } = shortenTexts(bytes, { within: 'items', maxTextBytes: max });
        expect(json.length).toBeLessThanOrEqual(bytes.length);
        for (const count of removed) expect(count).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 2000 },
    );
  });

  it('take time in proportion to the bytes, whatever these are', async () => {
    const cpuMs = await cpuMsOf(() => {
      for (const piece of ['\\\\', '\\"', '"', '{"items":[{"a":"'])
        shortenTexts(Buffer.from(`{"items":[{"a":"${piece.repeat(500_000)}"}]}`), {
          within: 'items',
          maxTextBytes: 8,
        });
    });
    expect(cpuMs).toBeLessThan(3000);
  });
});
