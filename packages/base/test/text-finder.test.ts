import fc from 'fast-check';
import { TextFinder, type Found } from '../src/text-finder.ts';

/** Finds the same as `TextFinder`, by a search for each text. */
function searched(wanted: readonly string[], text: string): readonly Found[] {
  const found: Found[] = [];
  wanted.forEach((each, index) => {
    for (let start = text.indexOf(each); start !== -1; start = text.indexOf(each, start + 1))
      found.push({ start, end: start + each.length, index });
  });
  found.sort((one, other) => one.start - other.start || other.end - one.end);
  const parts: Found[] = [];
  for (const { start, end, index } of found) {
    const last = parts.at(-1);
    if (last === undefined || last.end <= start) parts.push({ start, end, index });
    else parts.splice(-1, 1, { ...last, end: Math.max(last.end, end) });
  }
  return parts;
}

const few = (maxLength: number) =>
  fc.string({ unit: fc.constantFrom('a', 'b', '\u{1F511}'), minLength: 1, maxLength });

it('finds what a search for each text finds', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(few(5), { maxLength: 6 }),
      fc.string({ unit: fc.constantFrom('a', 'b', '\u{1F511}'), maxLength: 30 }),
      (wanted, text) => {
        expect(new TextFinder(wanted).in(text)).toEqual(searched(wanted, text));
      },
    ),
    { numRuns: 2_000 },
  );
});

it('joins texts that overlap, and keeps those that touch apart', () => {
  const finder = new TextFinder(['abcd', 'cdef', 'bc', 'x']);
  expect(finder.in('-abcdef-xx-bc')).toEqual([
    { start: 1, end: 7, index: 0 },
    { start: 8, end: 9, index: 3 },
    { start: 9, end: 10, index: 3 },
    { start: 11, end: 13, index: 2 },
  ]);
  expect(new TextFinder([]).in('abc')).toEqual([]);
});

it('finds thousands of texts about as fast as one', () => {
  const text = 'The key of this machine is aaaaaaaaa. '.repeat(20_000);
  const secondsOf = (count: number) => {
    const finder = new TextFinder(
      Array.from({ length: count }, (_, index) => `aaaaaaaa${String(index).padStart(8, '0')}`),
    );
    const { user } = process.cpuUsage();
    expect(finder.in(text)).toEqual([]);
    return (process.cpuUsage().user - user) / 1e6;
  };
  secondsOf(1);
  expect(secondsOf(8_000)).toBeLessThan(10 * secondsOf(1) + 0.5);
});
