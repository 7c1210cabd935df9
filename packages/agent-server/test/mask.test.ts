import * as fc from 'fast-check';
import { BoundedOutput } from '../src/commands.ts';
import { maskJson, maskText, maskUniquely, needlesOf, noNeedles, StreamMask } from '../src/mask.ts';

const hidden = '<secret-hidden>';

/** Texts of few letters, in which secrets occur, overlap, and begin at an end. */
const letters = fc.constantFrom('a', 'b', '"', '\n');
const aText = fc.string({ unit: letters, maxLength: 30 });
const aSecret = fc.string({ unit: letters, minLength: 4, maxLength: 7 });
const secrets = fc.array(aSecret, { minLength: 1, maxLength: 4 });
const aJson = fc.jsonValue({ stringUnit: letters, maxDepth: 3 });

describe('a masked text', () => {
  it.each<[string, string[], string, string]>([
    ['has no value', ['s3cret'], 'a s3cret b s3cret', `a ${hidden} b ${hidden}`],
    ['has one marker for values that overlap', ['abcde', 'defgh'], 'xabcdefghx', `x${hidden}x`],
    ['has one marker for a value within another', ['abcd', 'xabcdx'], 'xabcdx', hidden],
    ['has two for values side by side', ['abcd'], 'abcdabcd', hidden + hidden],
    ['keeps values below four characters', ['abc', ''], 'abc', 'abc'],
    ['has no value in the form of JSON', ['a"b\nc'], '{"k":"a\\"b\\nc"}', `{"k":"${hidden}"}`],
    [
      'has no value in JSON within JSON',
      ['a"bc'],
      '"{\\"k\\":\\"a\\\\\\"bc\\"}"',
      `"{\\"k\\":\\"${hidden}\\"}"`,
    ],
    ['has no value whose end of the line is lost', ['s3cret\n'], 's3cret!', `${hidden}!`],
    ['is not masked within its own markers', ['secret', 'hidden'], 'secret', hidden],
    [
      'has no line of a value of several lines',
      ['-----BEGIN KEY-----\r\n  MIIEvQIBADANBg\nshort\n-----END KEY-----\n'],
      '     2\t  MIIEvQIBADANBg\n< -----END KEY-----\nshort {"a":"x\\nMIIEvQIBADANBg"}',
      `     2\t  ${hidden}\n< ${hidden}\nshort {"a":"x\\n${hidden}"}`,
    ],
    ['takes no value for a pattern', ['a.c*', '$&$1'], 'abcc $&$1', `abcc ${hidden}`],
  ])('%s', (_case, values, text, expected) => {
    expect(maskText(text, needlesOf(values))).toBe(expected);
  });

  it('says what is around the values, with a marker or a part of one among it', () => {
    const piece = fc.constantFrom('s3cret', hidden, '<', '\\', 'secret-hidden>', ' (2)');
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const text = pieces.join('');
        const around = maskUniquely(text, needlesOf(['s3cret']))
          .split(hidden)
          .map((part) => part.replace(/<\\(\\*)secret-hidden>/g, '<$1secret-hidden>'));
        expect(around).toEqual(text.split('s3cret'));
      }),
    );
  });

  it('has no character of a value, whatever the values are', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(aText, aSecret)), secrets, (parts, values) => {
        const text = parts.join('');
        const kept = Array.from(text, () => true);
        for (const value of values
          .flatMap((each) => [each, each.trim()])
          .filter((each) => each.length >= 4))
          for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1))
            kept.fill(false, at, at + value.length);
        const masked = maskText(text, needlesOf(values));
        const rest = masked.split(hidden).join('');
        // The forms of JSON may hide more, and never less.
        expect(rest.length).toBeLessThanOrEqual(kept.filter(Boolean).length);
        const shown = Array.from(text)
          .filter((_letter, index) => kept[index])
          .join('');
        expect(isWithin(rest, shown)).toBe(true);
      }),
    );
  });

  it('costs nothing without values', () => {
    const value = { a: ['x'] };
    expect(needlesOf(['', 'abc'])).toBe(noNeedles);
    expect(maskJson(value, noNeedles)).toBe(value);
    expect(new StreamMask().push('x', noNeedles)).toBe('x');
  });
});

/** Whether a text is another one with characters left out. */
function isWithin(part: string, whole: string): boolean {
  let at = 0;
  for (const letter of whole) if (letter === part[at]) at += 1;
  return at === part.length;
}

describe('a text in pieces', () => {
  it('is masked as the whole text is, wherever it is split', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(aText, aSecret)), secrets, (pieces, values) => {
        const needles = needlesOf(values);
        const stream = new StreamMask();
        const shown = pieces.map((piece) => stream.push(piece, needles));
        shown.push(stream.end(needles));
        expect(shown.join('')).toBe(maskText(pieces.join(''), needles));
      }),
      { numRuns: 1_000 },
    );
  });

  it('is held back by less than the longest value, and only where it may become a value', () => {
    fc.assert(
      fc.property(aText, secrets, (text, values) => {
        const needles = needlesOf(values);
        const stream = new StreamMask();
        let [given, shown] = ['', ''];
        for (const letter of text) {
          given += letter;
          shown += stream.push(letter, needles);
          const ended = maskText(given, needles);
          expect(ended.startsWith(shown)).toBe(true);
          const held = ended.slice(shown.length);
          const longest = Math.max(...needles.texts.map(({ length }) => length));
          expect(held.split(hidden).join('').length).toBeLessThan(longest);
        }
      }),
    );
    expect(new StreamMask().push('plain', needlesOf(['s3cret']))).toBe('plain');
    expect(new StreamMask().push('plain s3c', needlesOf(['s3cret']))).toBe('plain ');
  });

  it('is masked at once although a value repeats itself without end', () => {
    const stream = new StreamMask();
    const needles = needlesOf(['aaaa']);
    const shown = Array.from({ length: 1_000 }, () => stream.push('a', needles)).join('');
    expect(shown + stream.end(needles)).toBe(hidden);
    expect(shown).toBe(hidden);
  });

  it('stays masked when another value is known in between', () => {
    const stream = new StreamMask();
    expect(stream.push('ab', needlesOf(['abcd']))).toBe('');
    expect(stream.push('cdx', needlesOf(['abcd', 'xyzw']))).toBe(hidden);
    expect(stream.push('y', needlesOf(['abcd']))).toBe('xy');
  });
});

describe('masked JSON', () => {
  it('has no value in any text, key or number', () => {
    const needles = needlesOf(['12345678', 's3cret']);
    const value = { s3cret: ['x s3cret'], n: 12345678, m: { deep: [12, true, null, 's3'] } };
    expect(maskJson(value, needles)).toEqual({
      [hidden]: [`x ${hidden}`],
      n: hidden,
      m: { deep: [12, true, null, 's3'] },
    });
  });

  it('loses no entry whose key becomes that of another one', () => {
    const value = {
      'a/s3cret': 1,
      [`a/${hidden}`]: 2,
      [`a/${hidden} (2)`]: 3,
      'a/s3crets3cret': 4,
    };
    expect(maskJson(value, needlesOf(['s3cret', 's3crets3cret']))).toEqual({
      [`a/${hidden}`]: 1,
      [`a/${hidden} (2)`]: 2,
      [`a/${hidden} (2) (2)`]: 3,
      [`a/${hidden} (3)`]: 4,
    });
  });

  it('holds no value, whatever it is, and stays as it is without one', () => {
    fc.assert(
      fc.property(aJson, secrets, (value, values) => {
        const needles = needlesOf(values);
        const text = JSON.stringify(maskJson(value, needles));
        const strings = (each: unknown): readonly string[] =>
          typeof each === 'string'
            ? [each]
            : typeof each === 'object' && each !== null
              ? Object.entries(each).flatMap(([key, inner]) => [key, ...strings(inner)])
              : [];
        for (const each of strings(JSON.parse(text)))
          for (const secret of values)
            expect(each.split(hidden).some((part) => part.includes(secret))).toBe(false);
        expect(maskJson(value, needlesOf(['neverthere']))).toEqual(value);
      }),
    );
  });

  it('is bounded in depth', () => {
    const deep = JSON.parse(`${'['.repeat(1_000)}"s3cret"${']'.repeat(1_000)}`) as unknown;
    const text = JSON.stringify(maskJson(deep, needlesOf(['s3cret'])));
    expect(text).not.toContain('s3cret');
    expect(text).toContain(hidden);
  });
});

describe('a bounded output', () => {
  it.each(Array.from({ length: 12 }, (_none, before) => before))(
    'shows no part of a value that its omission splits, after %d characters',
    (before) => {
      const output = new BoundedOutput(20);
      output.push(
        Buffer.from(
          `${'.'.repeat(before)}s3cret-value${'.'.repeat(30)}s3cret-value${'.'.repeat(before)}`,
        ),
      );
      const text = output.toString(needlesOf(['s3cret-value']));
      expect(text).toContain('bytes omitted');
      expect(text.replaceAll(hidden, '')).toMatch(/^\.*\n… \d+ bytes omitted …\n\.*$/);
    },
  );
});
