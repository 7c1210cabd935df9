import { parse } from 'yaml';
import {
  escaped,
  escapedLine,
  fitted,
  printTable,
  printValue,
} from '../../../src/plugin/terminal.ts';

const written: string[] = [];
const write = process.stdout.write.bind(process.stdout);
beforeEach(() => {
  written.length = 0;
  process.stdout.write = (text) => written.push(String(text)) > 0;
});
afterEach(() => {
  process.stdout.write = write;
});

/** Characters by which a text could take a terminal over, or hide a part of itself. */
const hostile = [
  ['a colour', '\u001b[31m', '\\u001b[31m'],
  ['the title of the window', '\u001b]0;x\u0007', '\\u001b]0;x\\u0007'],
  ['an 8-bit control sequence', '\u009b2J', '\\u009b2J'],
  ['a return to the beginning of the line', 'rm\rls', 'rm\\u000dls'],
  ['a backspace', 'a\bb', 'a\\u0008b'],
  ['a reversed text', '\u202etxt', '\\u202etxt'],
  ['an isolate', '\u2067txt', '\\u2067txt'],
  ['a character without width', 'a\u200bb', 'a\\u200bb'],
  ['a tag above the basic plane', 'a\u{e0041}b', 'a\\udb40\\udc41b'],
  ['a separator of lines', 'a\u2028b', 'a\\u2028b'],
  ['half of a pair', 'a\ud800b', 'a\\ud800b'],
] as const;

it.each(hostile)('%s is shown, and not done', (_name, text, shown) => {
  expect(escaped(text)).toBe(shown);
});

it('lines, tabs and other languages stay as they are', () => {
  const text = 'one\n\ttwo äöü 日本 🙂 é';
  expect(escaped(text)).toBe(text);
  expect(escapedLine('one\n\ttwo')).toBe('one\\n\\ttwo');
});

describe.each(['json', 'yaml'] as const)('The output -o %s', (output) => {
  it.each(hostile.slice(0, -1))(
    'has %s as an escape, and programs read the same text',
    (_name, text) => {
      expect(printValue(output, { [`k${text}`]: [text, { plain: 'x' }] })).toBe(true);
      const printed = written.join('');
      expect(printed).toBe(escaped(printed));
      expect(parse(printed)).toEqual({ [`k${text}`]: [text, { plain: 'x' }] });
    },
  );
});

it('tables and names are not for printValue', () => {
  expect([printValue('wide', {}), printValue('name', {}), printValue(undefined, {})]).toEqual([
    ...[false, false, false],
  ]);
  expect(written).toEqual([]);
});

it('a text that does not fit ends with a mark', () => {
  expect(fitted('12345', 5)).toBe('12345');
  expect(fitted('123456', 5)).toBe('1234…');
  // Each of these characters takes two columns.
  expect(fitted('日本語です', 5)).toBe('日本…');
});

it('the columns of a table begin at the same place, also after wide characters', () => {
  printTable([
    ['NAME', 'STATE'],
    ['日本', 'Runs'],
    ['a\nb\u001b', 'Waits'],
  ]);
  expect(written.join('')).toBe('NAME         STATE\n日本         Runs\na\\nb\\u001b   Waits\n');
});
