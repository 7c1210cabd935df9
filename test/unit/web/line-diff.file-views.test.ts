import { truncatePieces, type Colouring } from '../../../src/web/coloured-lines.ts';
import {
  commentText,
  lineDiffOf,
  linesOf,
  maxRows,
  pairsOf,
  partsOf,
  stepsOf,
  type DiffRow,
} from '../../../src/web/line-diff.ts';
import { contentOf, matchingPaths } from '../../../src/web/file-tree.ts';

describe('colours', () => {
  // Types of its library bring those of the DOM, which programs of Node must not see.
  let colouredLines: Colouring['colouredLines'];
  beforeAll(async () => {
    const { href } = new URL('../../../src/web/workers/colours.ts', import.meta.url);
    ({ colouredLines } = (await import(href)) as Colouring);
  });

  const source = "/* a\nb */ const name = `x${1}\n`;\n\nreturn 'é\u202e';";
  const textOf = (lines: ReturnType<Colouring['colouredLines']>) =>
    lines?.map((line) => line.map(({ text }) => text).join('')).join('\n');

  it.each(['a.ts', 'a.py', 'A.HTML', 'Makefile', 'x/y.yaml', 'a.sh', 'a.json', 'a.md', 'a.css'])(
    'keep every character of %s',
    (path) => {
      for (const text of [source, '', '\n', '<a href="x">&amp;</a>', '\r\nA=1 # b'])
        expect(textOf(colouredLines(path, text))).toBe(text);
    },
  );

  it('continue over the ends of lines', () => {
    const kinds = colouredLines('a.ts', source)?.map((line) => line[0]?.kind);
    expect(kinds).toEqual(['comment', 'comment', 'string', undefined, 'keyword']);
  });

  it.each(['a.unknown', 'constructor', '.', ''])('are not there for %p', (path) => {
    expect(colouredLines(path, 'a')).toBeUndefined();
  });

  it('are not there for a text of very many pieces', () => {
    expect(colouredLines('a.ts', "'a';".repeat(20_000))).toBeUndefined();
  });

  it('are truncated with their line', () => {
    const pieces = [{ text: 'abc' }, { text: 'def', kind: 'string' as const }];
    expect(truncatePieces(pieces, 4)).toEqual([{ text: 'abc' }, { text: 'd', kind: 'string' }]);
    expect(truncatePieces(pieces, 3)).toEqual([{ text: 'abc' }]);
  });
});

describe('two versions beside each other', () => {
  const row = (sign: string): DiffRow => ({
    kind: sign[0] === '+' ? 'added' : sign[0] === '-' ? 'removed' : 'same',
    text: sign,
    missing: 0,
  });
  it.each([
    [['-a', '+b'], ['-a|+b']],
    [
      ['-a', '-b', '+c'],
      ['-a|+c', '-b|'],
    ],
    [
      ['+a', '-b'],
      ['|+a', '-b|'],
    ],
    [
      [' a', '-b', ' c', '+d'],
      [' a| a', '-b|', ' c| c', '|+d'],
    ],
    [[], []],
  ])('of %p', (rows, pairs) => {
    const found = pairsOf(rows.map(row));
    expect(found.map(({ old, new: now }) => `${old?.text ?? ''}|${now?.text ?? ''}`)).toEqual(
      pairs,
    );
  });

  it('have all rows of the diff, each once', () => {
    const numbers = (by: number) =>
      Array.from({ length: 60 }, (_, index) => (index * by) % 17).join('\n');
    const diff = { original: numbers(3), modified: numbers(5) };
    const { rows } = lineDiffOf('UPDATED', diff, true);
    const sides = pairsOf(rows).flatMap(({ old, new: now }) => [old, now]);
    for (const each of rows)
      expect(sides.filter((side) => side === each)).toHaveLength(
        each.kind === 'added' || each.kind === 'removed' ? 1 : 2,
      );
  });
});

it('shows a file with its numbers, and says how many lines it leaves out', () => {
  expect(linesOf('a\n\nb\n')).toEqual({
    rows: [
      { kind: 'same', new: 1, text: 'a', missing: 0 },
      { kind: 'same', new: 2, text: '', missing: 0 },
      { kind: 'same', new: 3, text: 'b', missing: 0 },
    ],
    hidden: 0,
  });
  expect(linesOf('a\n'.repeat(maxRows + 3))).toMatchObject({ hidden: 3 });
});

it.each<[Partial<DiffRow>, string]>([
  [{ new: 3, old: 2 }, '`a.ts`, line 3:\n> text\nWhy?\n'],
  [{ old: 2 }, '`a.ts`, line 2 before the change:\n> text\nWhy?\n'],
  [{ new: 3, missing: 4 }, '`a.ts`, line 3:\n> text …\nWhy?\n'],
])('makes a comment on %p a part of a message', (fields, text) => {
  const line: DiffRow = { kind: 'same', text: 'text', missing: 0, ...fields };
  expect(commentText({ path: 'a.ts', line, text: 'Why?' })).toBe(text);
});

describe('the tree of files', () => {
  it('has folders and files in the order of their names', () => {
    const paths = ['b', 'a/c10', 'a/c9', 'a/__proto__/x', 'B2', 'ab/x'];
    expect(contentOf(paths, '')).toEqual({ folders: ['a', 'ab'], files: ['b', 'B2'] });
    expect(contentOf(paths, 'a')).toEqual({ folders: ['__proto__'], files: ['c9', 'c10'] });
    expect(contentOf(paths, 'a/__proto__')).toEqual({ folders: [], files: ['x'] });
  });

  it('is as fast for deep paths', () => {
    const paths = Array.from({ length: 200 }, (_, index) => `${'a/'.repeat(2_000)}${index}`);
    expect(contentOf(paths, '')).toEqual({ folders: ['a'], files: [] });
  });

  it('is searched by words, the shortest path first', () => {
    const paths = ['src/login/index.ts', 'src/login.ts', 'login.md'];
    expect(matchingPaths(paths, ' TS login ', 9)).toEqual(['src/login.ts', 'src/login/index.ts']);
    expect(matchingPaths(paths, 'login', 2)).toEqual(['login.md', 'src/login.ts']);
  });
});

describe('invisible characters', () => {
  it('are one mark for a run of the same', () => {
    expect(partsOf('a\u0001\u0001\u0001b\u202e')).toEqual(['a', 'U+0001 ×3', 'b', 'U+202E', '']);
    expect(partsOf('\u0001'.repeat(2_000))).toEqual(['', 'U+0001 ×2,000', '']);
  });

  it('are a part of the text where there are many', () => {
    const [text, ...others] = partsOf('a\u0001'.repeat(300));
    expect(others).toEqual([]);
    expect(text).toBe('a[U+0001]'.repeat(300));
  });
});

describe('the steps in which rows are shown', () => {
  const sizes = (texts: readonly string[]) => {
    const { steps, hidden } = stepsOf(texts, (text) => [text]);
    expect(steps.flat()).toEqual(texts.slice(0, texts.length - hidden));
    return { steps: steps.map(({ length }) => length), hidden };
  };
  it('are of 250 plain lines', () => {
    expect(sizes(Array.from({ length: 600 }, () => 'plain'))).toEqual({
      steps: [250, 250, 100],
      hidden: 0,
    });
  });

  it('are of fewer lines that need many elements, and end', () => {
    const { steps, hidden } = sizes(Array.from({ length: 500 }, () => 'é '.repeat(1_000)));
    expect([steps[0], steps.length + hidden]).toEqual([1, 500]);
    expect(hidden).toBeGreaterThan(400);
  });
});
