import { lineDiffOf, maxLineLength, maxRows, partsOf } from '../../../src/web/line-diff.ts';

const numbered = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => `line ${from + index}`).join('\n');
const updated = (original: string, modified: string) =>
  lineDiffOf('UPDATED', { original, modified }, true);
const shown = (original: string, modified: string): readonly string[] =>
  updated(original, modified).rows.map(({ kind, old, new: now, text }) =>
    [kind, old ?? '', now ?? '', text].join('|'),
  );

describe('the diff of a file', () => {
  it('has three lines around a change, and the numbers of both versions', () => {
    const before = numbered(1, 11);
    expect(shown(before, before.replace('line 5', 'five\nand a half'))).toEqual([
      'hunk|||@@ -2,7 +2,8 @@',
      'same|2|2|line 2',
      'same|3|3|line 3',
      'same|4|4|line 4',
      'removed|5||line 5',
      'added||5|five',
      'added||6|and a half',
      'same|6|7|line 6',
      'same|7|8|line 7',
      'same|8|9|line 8',
    ]);
  });

  it('has the last line once where lines follow it', () => {
    expect(shown('a', 'a\nb')).toEqual(['hunk|||@@ -1,1 +1,2 @@', 'same|1|1|a', 'added||2|b']);
  });

  it('has an empty last line', () => {
    expect(shown('a', 'a\n').at(-1)).toBe('added||2|');
  });

  it.each<[string, Parameters<typeof lineDiffOf>, string]>([
    ['a binary file', ['UPDATED', { original: 'a\0b', modified: '' }, true], 'A binary file'],
    ['a new binary file', ['ADDED', { original: '', modified: '' }, true], 'empty or binary'],
    [
      'a file without a repository',
      ['ADDED', { original: null, modified: null }, true],
      'Git does',
    ],
    ['a file of no pause', ['ADDED', { original: null, modified: null }, false], 'No versions'],
    ['a file with another mode', ['UPDATED', { original: 'a', modified: 'a' }, true], 'the same'],
  ])('of %s has words in place of lines', (_name, input, words) => {
    const diff = lineDiffOf(...input);
    expect(diff).toEqual({ note: expect.stringContaining(words) as string, rows: [], hidden: 0 });
  });

  it('says that a version without text may be binary, and shows the lines of the other', () => {
    const diff = updated('a\nb', '');
    expect(diff.note).toBe('The file is empty or binary now.');
    expect(diff.lines).toEqual({ added: 0, removed: 2 });
  });

  it('of a file that is gone has all of its lines, without a note', () => {
    const diff = lineDiffOf('DELETED', { original: 'a\nb', modified: '' }, true);
    expect([diff.note, diff.lines]).toEqual([undefined, { added: 0, removed: 2 }]);
  });

  it('counts all lines, and shows 5000 of them', () => {
    const diff = updated('', numbered(0, 6_000));
    expect(diff.rows).toHaveLength(maxRows + 1);
    expect(diff).toMatchObject({ hidden: 1_000, lines: { added: 6_000, removed: 0 } });
  });

  it('counts the characters that a long line lacks', () => {
    const [, line] = updated('', 'x'.repeat(maxLineLength + 7)).rows;
    expect([line?.text.length, line?.missing]).toEqual([maxLineLength, 7]);
  });

  it('of versions without a common line takes little time, and has both as a whole', () => {
    const begin = performance.now();
    const diff = updated(numbered(0, 20_000), numbered(20_000, 40_000));
    expect(performance.now() - begin).toBeLessThan(2_000);
    expect(diff.note).toContain('all lines of the old one come first');
    expect(diff).toMatchObject({ hidden: 35_000, lines: { added: 20_000, removed: 20_000 } });
  });
});

it.each([
  ['a\tb é 👩‍💻', ['a\tb é 👩‍💻']],
  ['a\u202eb', ['a', 'U+202E', 'b']],
  ['\u{e0041}\u200b', ['', 'U+E0041', '', 'U+200B', '']],
  ['\r', ['', 'U+000D', '']],
])('marks invisible characters in %j', (text, parts) => {
  expect(partsOf(text)).toEqual(parts);
});
