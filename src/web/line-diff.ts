import { structuredPatch } from 'diff';
import type { GitChange, GitDiff } from './wire.ts';

/** Maximum lines of a diff that are shown. */
export const maxRows = 5_000;
/** Maximum characters of a line that are shown, because one line may be a file of 1 MiB. */
export const maxLineLength = 2_000;
/** Maximum duration of a comparison, during which the page does not react. */
const timeoutMs = 500;
const context = 3;

export interface DiffRow {
  /** `hunk`: a header with the position of the lines below it. Other kinds: a line of a file. */
  readonly kind: 'hunk' | 'same' | 'added' | 'removed';
  /** Line numbers in both versions; absent if the version does not have the line. */
  readonly old?: number;
  readonly new?: number;
  readonly text: string;
  /** Number of characters that are missing at the end of `text`. */
  readonly missing: number;
}

export interface LineDiff {
  /** A sentence that is shown above the lines, or instead of them. */
  readonly note?: string;
  readonly rows: readonly DiffRow[];
  /** Numbers of all lines, including hidden ones; undefined if there is nothing to count. */
  readonly lines?: { readonly added: number; readonly removed: number };
  readonly hidden: number;
}

/** A hunk of a patch. Each line begins with its sign. */
interface Hunk {
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
  readonly lines: readonly string[];
}

/** An old and a new line side by side. A line that only one version has stands alone. */
export interface DiffPair {
  readonly old?: DiffRow;
  readonly new?: DiffRow;
}

/** Rows of a unified diff in two columns: removed lines are beside the added lines after them. */
export function pairsOf(rows: readonly DiffRow[]): readonly DiffPair[] {
  const pairs: DiffPair[] = [];
  let removed: DiffRow[] = [];
  let added: DiffRow[] = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) {
      const [old, now] = [removed[index], added[index]];
      pairs.push({ ...(old && { old }), ...(now && { new: now }) });
    }
    [removed, added] = [[], []];
  };
  for (const row of rows) {
    if (row.kind === 'removed' && added.length > 0) flush();
    if (row.kind === 'removed') removed.push(row);
    else if (row.kind === 'added') added.push(row);
    else {
      flush();
      pairs.push({ old: row, new: row });
    }
  }
  flush();
  return pairs;
}

const only = (note: string): LineDiff => ({ note, rows: [], hidden: 0 });

/**
 * The unified diff of both versions. Pure, except for its time limit. `isLive`: the agent has sent
 * the versions; else the last pause has stored them.
 */
export function lineDiffOf(
  status: GitChange['status'],
  { original, modified }: GitDiff,
  isLive: boolean,
): LineDiff {
  if (original === null && modified === null)
    return only(
      isLive
        ? 'Git does not know this file.'
        : 'No versions of this file are stored: a pause stores those of 100 files, up to 256 KiB each and 2 MiB together.',
    );
  const [before, after] = [original ?? '', modified ?? ''];
  if (before.includes('\0') || after.includes('\0')) return only('A binary file has no lines.');
  if (before === '' && after === '') return only('The file is empty or binary.');
  if (before === after)
    return only('The lines are the same: the mode, or the ends of lines, have changed.');
  const patch = hunksOf(before, after);
  const note =
    after === '' && status !== 'DELETED'
      ? 'The file is empty or binary now.'
      : patch.isWhole
        ? 'The versions differ too much for a comparison: all lines of the old one come first, then all of the new one.'
        : undefined;
  return { ...rowsOf(patch.hunks), ...(note === undefined ? {} : { note }) };
}

/** The lines of one version of a file, in the form of a diff without changes. */
export function linesOf(text: string): LineDiff {
  const lines = text.split('\n');
  // The last part is empty if the text ends with a line feed.
  if (lines.at(-1) === '') lines.pop();
  const rows = lines.slice(0, maxRows).map((line, index): DiffRow => {
    const shown = line.slice(0, maxLineLength);
    return { kind: 'same', new: index + 1, text: shown, missing: line.length - shown.length };
  });
  return { rows, hidden: lines.length - rows.length };
}

/** Adds the last line feed, which the gateway leaves out, so that it is never a change. */
const ended = (text: string): string => (text === '' ? '' : `${text}\n`);

function hunksOf(
  before: string,
  after: string,
): { readonly hunks: readonly Hunk[]; readonly isWhole: boolean } {
  const options = { context, timeout: timeoutMs };
  const patch = structuredPatch('', '', ended(before), ended(after), '', '', options);
  if (patch !== undefined) return { hunks: patch.hunks, isWhole: false };
  const [old, now] = [before.split('\n'), after.split('\n')];
  const lines = [...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
  const whole = { oldStart: 1, oldLines: old.length, newStart: 1, newLines: now.length, lines };
  return { hunks: [whole], isWhole: true };
}

function rowsOf(hunks: readonly Hunk[]): Omit<LineDiff, 'note'> {
  const rows: DiffRow[] = [];
  const lines = { added: 0, removed: 0 };
  let shown = 0;
  let hidden = 0;
  for (const { oldStart, oldLines, newStart, newLines, lines: signed } of hunks) {
    let [old, now] = [oldStart, newStart];
    if (shown < maxRows) {
      const text = `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`;
      rows.push({ kind: 'hunk', text, missing: 0 });
    }
    for (const line of signed) {
      const kind = line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : 'same';
      if (kind !== 'same') lines[kind] += 1;
      const numbers = {
        ...(kind === 'added' ? {} : { old: old++ }),
        ...(kind === 'removed' ? {} : { new: now++ }),
      };
      if (shown === maxRows) hidden += 1;
      else {
        shown += 1;
        const text = line.slice(1, maxLineLength + 1);
        rows.push({ kind, ...numbers, text, missing: line.length - 1 - text.length });
      }
    }
  }
  return { rows, lines, hidden };
}

/** Invisible characters, some of which reorder the text around them. Tabs count as visible. */
const unseen =
  // eslint-disable-next-line no-control-regex -- these are what is to be seen
  /([\u0000-\u0008\u000a-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}])/u;

/** Maximum marks of invisible characters in a text; each mark becomes an element. */
const maxMarks = 50;

const nameOf = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

/**
 * Splits a text. A part with an odd index names an invisible character, such as `U+202E`, or a
 * repeated one, such as `U+202E ×3`. Above `maxMarks` names, there is only one part, with the names
 * in brackets.
 */
export function partsOf(text: string): readonly string[] {
  const parts: string[] = [];
  let visible = '';
  let [mark, count] = ['', 0];
  const end = () => {
    if (count > 0) {
      const times = count > 1 ? ` ×${count.toLocaleString('en-US')}` : '';
      parts.push(visible, `${nameOf(mark)}${times}`);
      visible = '';
    }
    [mark, count] = ['', 0];
  };
  for (const [index, part] of text.split(unseen).entries()) {
    if (index % 2 === 1) {
      if (part !== mark) end();
      mark = part;
      count += 1;
    } else if (part !== '') {
      end();
      visible += part;
    }
  }
  end();
  parts.push(visible);
  if (parts.length <= 2 * maxMarks) return parts;
  return [parts.map((part, index) => (index % 2 === 1 ? `[${part}]` : part)).join('')];
}

/** Maximum elements: of one step, so that the page reacts between two steps, and of all steps. */
const [stepWeight, maxWeight] = [1_000, 30_000];

/** An estimate of the number of elements that a line needs. */
const weightOf = (text: string): number =>
  /^[\t -~]*$/.test(text) ? 4 : 4 + Math.ceil(text.length / 4);

/** Groups rows into steps, rendered one by one; `hidden` is the number of rows over `maxWeight`. */
export function stepsOf<T>(
  rows: readonly T[],
  textsOf: (row: T) => readonly string[],
): { readonly steps: readonly (readonly T[])[]; readonly hidden: number } {
  const steps: T[][] = [];
  let [inStep, inAll] = [stepWeight, 0];
  for (const [index, row] of rows.entries()) {
    const weight = textsOf(row).reduce((sum, text) => sum + weightOf(text), 0);
    if (inAll + weight > maxWeight) return { steps, hidden: rows.length - index };
    if (inStep + weight > stepWeight) {
      steps.push([]);
      inStep = 0;
    }
    steps.at(-1)?.push(row);
    inStep += weight;
    inAll += weight;
  }
  return { steps, hidden: 0 };
}

export interface Commented {
  readonly path: string;
  readonly line: DiffRow;
  readonly text: string;
}

/** A comment as a part of a message: the path, the line number, the quoted line, and the text. */
export function commentText({ path, line, text }: Commented): string {
  const number = line.new ?? line.old ?? 0;
  const place = line.new === undefined ? `line ${number} before the change` : `line ${number}`;
  const mark = line.missing > 0 ? ' …' : '';
  return `\`${path}\`, ${place}:\n> ${line.text}${mark}\n${text}\n`;
}

/** Turns comments into parts of the next message; undefined if no message is possible. */
export const commenting = (onMessage: ((text: string) => void) | undefined) =>
  onMessage === undefined
    ? undefined
    : (comment: Commented) => {
        onMessage(commentText(comment));
      };
