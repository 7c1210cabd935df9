import fc from 'fast-check';
import { withoutQuickActions } from '../../../../src/gateway/pull-requests/pull-requests.ts';

it.each<[string, string, string]>([
  ['alone', '/close', String.raw`\/close`],
  ['in capitals', '/Merge', String.raw`\/Merge`],
  ['with an argument', '/label ~bug', String.raw`\/label ~bug`],
  ['with a dash and digits', '/ok-to-test2', String.raw`\/ok-to-test2`],
  ['behind spaces', '  \t/approve', `  \t\\/approve`],
  ['behind a no-break space', '\u{a0}/approve', '\u{a0}\\/approve'],
  ['on a later line', 'Done.\n/merge\n/close', 'Done.\n\\/merge\n\\/close'],
  ['behind an empty line', '\n\n/merge', '\n\n\\/merge'],
  ['behind another end of a line', 'Done.\r/merge\r\n/close', 'Done.\n\\/merge\n\\/close'],
  ['that lacks only a carriage return', '/\rclose', '/\nclose'],
  ['that a carriage return divides', '/clo\rse', '\\/clo\nse'],
  ['in a block of code, where bots read too', '```\n/merge\n```', '```\n\\/merge\n```'],
  ['with a mark behind it', '/merge!', String.raw`\/merge!`],
])('a quick action %s is escaped', (_where, text, expected) => {
  expect(withoutQuickActions(text)).toBe(expected);
});

it.each([
  '',
  'See docs/close and src/merge.',
  'Either /close or not',
  '/usr/bin/env',
  '/etc/passwd is read',
  '//close',
  '/ close',
  '/1',
  String.raw`\/close`,
  '> quoted',
])('%j is no quick action', (text) => {
  expect(withoutQuickActions(text)).toBe(text);
});

it('takes no more time than the text is long', () => {
  const [begin, length] = [performance.now(), 1_000_000];
  for (const character of [' ', '\n', '\u{2028}', '\u{200b}', '/', '/a', '/\u{0}', '/a '])
    withoutQuickActions(character.repeat(length));
  // Quadratic time would be hours.
  expect(performance.now() - begin).toBeLessThan(20_000);
});

/** Ends of lines for one host or another: those of Unicode, and those of Python's `splitlines`. */
const lineEnds = [
  '\n',
  '\r',
  '\r\n',
  '\v',
  '\f',
  '\u{1c}',
  '\u{1d}',
  '\u{1e}',
  '\u{85}',
  '\u{2028}',
  '\u{2029}',
];
/** Characters that one host or another drops, or takes for a blank. */
const blanks = [
  ' ',
  '\t',
  '\u{a0}',
  '\0',
  '\u{1f}',
  '\u{200b}',
  '\u{2060}',
  '\u{feff}',
  '\u{202e}',
];

it('no text has a line that a host would obey, wherever a host ends and trims its lines', () => {
  const words = ['/close', '/Merge', '/approve now', 'Done.', '/usr/bin', '/', 'x', '\\'];
  // A blank that has a width stays.
  const dropped = blanks.slice(3);
  const lineEnd = new RegExp(`[${lineEnds.join('')}]`);
  const piece = fc.constantFrom(...words, ...lineEnds, ...blanks);
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = withoutQuickActions(pieces.join(''));
      for (const line of text.split(lineEnd)) {
        const seen = blanks.reduce((rest, blank) => rest.replaceAll(blank, ' '), line).trim();
        const stripped = dropped.reduce((rest, each) => rest.replaceAll(each, ''), line);
        for (const shown of [seen, stripped.trim()])
          expect(shown).not.toMatch(/^\/[a-z][^\s/]*(\s|$)/i);
      }
    }),
    { numRuns: 2_000 },
  );
});
