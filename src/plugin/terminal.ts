import { createInterface } from 'node:readline/promises';
import { stringify } from 'yaml';
import { CommandError } from '../commands/terminal.ts';

/** The arguments of the command are wrong: exit code 2. */
export class UsageError extends CommandError {}

/** Control and format characters, separators of lines, and halves of surrogate pairs. */
const unsafe = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The escape of a character in the form of JSON, which is also that of quoted YAML. */
const escapeOf = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');

/**
 * A text of an agent or an owner as it may appear on a terminal: characters that move the cursor,
 * change colours, hide or reorder text are shown by their escapes. Nothing is left out.
 */
export const escaped = (text: string): string => text.replaceAll(unsafe, escapeOf);

/** The same on one line. */
export const escapedLine = (text: string): string =>
  escaped(text).replaceAll('\n', '\\n').replaceAll('\t', '\\t');

/** Every line of output passes here, so that no command can forget to escape a text. */
export const print = (text: string): void => {
  process.stdout.write(`${escaped(text)}\n`);
};
export const say = (text: string): void => {
  process.stderr.write(`${escaped(text)}\n`);
};

export const outputs = ['json', 'yaml', 'wide', 'name'] as const;
export type Output = (typeof outputs)[number];

const jsonOf = (value: unknown): string => escaped(JSON.stringify(value, undefined, 2));

/** YAML. A text with characters that `escaped` changes is quoted, so that it keeps its value. */
function yamlOf(value: unknown): string {
  const options = { lineWidth: 0 };
  const plain = stringify(value, options).trimEnd();
  if (escaped(plain) === plain) return plain;
  const quoted = { ...options, defaultStringType: 'QUOTE_DOUBLE' } as const;
  // Pairs of surrogates are no escapes of YAML.
  return stringify(value, quoted)
    .trimEnd()
    .replaceAll(unsafe, (character) =>
      character.length === 1
        ? escapeOf(character)
        : `\\U${(character.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`,
    );
}

/** Prints a value for programs. Returns false for the formats that are for people. */
export function printValue(output: Output | undefined, value: unknown): boolean {
  if (output !== 'json' && output !== 'yaml') return false;
  print(output === 'json' ? jsonOf(value) : yamlOf(value));
  return true;
}

/** Columns of a terminal; undefined where the output is not read there. */
export const terminalWidth = (): number | undefined =>
  process.stdout.isTTY ? process.stdout.columns : undefined;

/** Columns that a text takes; a wide character takes two. */
const widthOf = (text: string): number =>
  Array.from(text).reduce(
    (sum, character) => sum + (/\p{Mn}/u.test(character) ? 0 : isWide(character) ? 2 : 1),
    0,
  );
const isWide = (character: string): boolean =>
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u.test(
    character,
  );

/** The beginning of a text that fits, with `…` where text is left out. */
export function fitted(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let [head, taken] = ['', 0];
  for (const character of text) {
    taken += widthOf(character);
    if (taken > width - 1) break;
    head += character;
  }
  return `${head.trimEnd()}…`;
}

/** Aligned columns. The last column ends at the edge of a terminal with `…`. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const cells = rows.map((row) => row.map(escapedLine));
  const columns = cells[0]?.length ?? 0;
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...cells.map((row) => widthOf(row[column] ?? ''))),
  );
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 3, 0);
  const room = terminalWidth();
  for (const row of cells) {
    const line = row.map((cell, column) =>
      column < columns - 1
        ? `${cell}${' '.repeat((widths[column] ?? 0) - widthOf(cell))}`
        : room === undefined
          ? cell
          : fitted(cell, Math.max(20, room - before)),
    );
    print(line.join('   ').trimEnd());
  }
}

/** Asks for y or n; anything else, and Ctrl-C, is no. Throws where nobody can answer. */
export async function confirmed(question: string, yes: boolean | undefined): Promise<boolean> {
  if (yes === true) return true;
  if (!process.stdin.isTTY)
    throw new UsageError('Standard input is no terminal: --yes answers the question');
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  const interruption = new AbortController();
  prompt.on('SIGINT', () => interruption.abort());
  prompt.on('close', () => interruption.abort());
  try {
    const { signal } = interruption;
    return /^y(es)?$/i.test((await prompt.question(`${question} [y/N] `, { signal })).trim());
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    process.stderr.write('\n');
    return false;
  } finally {
    prompt.close();
  }
}

/** All of standard input as text. */
export async function standardInput(): Promise<string> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const chunk of process.stdin) text += String(chunk);
  return text;
}
