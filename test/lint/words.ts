import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A place in a text that breaks a rule of docs/glossary.md. `line` counts from 1. */
export interface Finding {
  readonly line: number;
  readonly message: string;
}

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const glossary = 'docs/glossary.md';
const maxCommentWidth = 100;

/** Files of the repository whose language the rules cover. */
const covered = [
  '*.{ts,md}',
  '{src,packages,docs,images,.github}/**/*.{ts,tsx,css,md,sh,yaml}',
  'helm/**/*.{ts,md,tpl,txt}',
  'helm/**/{values,Chart}.yaml',
  'helm/**/templates/*.yaml',
  'images/*Containerfile',
  'Makefile',
  'test/**/*.{ts,sh}',
  'test/**/run',
  'test/cluster/{build,down,running,up,with-control-plane}',
  'test/forge/{build,down,up}',
  'test/services/s3/{build,down,up}',
];
/** Generated files, released notes, and the files that contain the words to refuse them. */
const excluded = [
  '**/node_modules/**',
  glossary,
  'CHANGELOG.md',
  '**/crds/**',
  'test/lint/words.ts',
  'test/unit/lint/words.test.ts',
];

/** Words and phrases out of use, each with its replacement. */
type Words = ReadonlyMap<string, string>;

function wordsOf(table: string): Words {
  const rows = table.split('\n').filter((line) => line.startsWith('|') && !/^\| *-/.test(line));
  return new Map(
    rows.slice(1).flatMap((row) => {
      const [, words = '', replacement = ''] = row.split('|').map((cell) => cell.trim());
      return words.split(', ').map((word) => [word, replacement] as const);
    }),
  );
}

/**
 * The words of the two tables of docs/glossary.md: those of the first one are refused everywhere,
 * those of the second one only in documents, because names of the code contain names of the API.
 */
export function wordsOutOfUse(text = readFileSync(join(root, glossary), 'utf8')): {
  readonly inCode: Words;
  readonly inDocuments: Words;
} {
  const section = /^## Words out of use\n(?<tables>[^#]*)/m.exec(text)?.groups?.['tables'] ?? '';
  const [inCode, more] = section
    .split(/\n(?!\|)/)
    .filter((part) => part.includes('|'))
    .map(wordsOf);
  if (inCode === undefined || more === undefined)
    throw new Error(`${glossary} lacks a table of words out of use`);
  return { inCode, inDocuments: new Map([...inCode, ...more]) };
}

/** A sentence of a comment without a noun of the code as its subject. */
const withoutSubject =
  /(?:^\s*(?:\/\*\*|\*|\/\/) |^[^'"`]*\/\/ .*[.:;] |^\s*(?:\/\*\*|\*|\/\/) .*[.!?] )(It|What|Of|So|Who|Whoever) /;

/**
 * Texts that are not the project's own: the name of a stream of random numbers, where another name
 * gives every seed another meaning; the program `cut`; and a message of the API server.
 */
const fixedTexts = /\bfork\('[^']*'\)|\bcut(?= -)|\berror looking up/g;

/** The findings of one text. Names are split into their words: `tellAll` contains `tell`. */
export function check(text: string, words: Words, isCode: boolean): readonly Finding[] {
  const phrases = [...words.keys()].filter((word) => word.includes(' '));
  let fenced = false;
  return text.split('\n').flatMap((content, index): readonly Finding[] => {
    if (!isCode && content.trimStart().startsWith('```')) fenced = !fenced;
    if (fenced) return [];
    const prose = content
      .replaceAll(isCode ? fixedTexts : /`[^`]*`|\]\([^)]*\)/g, '')
      .replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, ' ');
    const lower = prose.toLowerCase();
    const found = (lower.match(/[a-z]+/g) ?? []).filter((word) => words.has(word));
    const line = index + 1;
    const messages = [
      ...new Set([
        ...found,
        ...phrases.filter((phrase) => new RegExp(`\\b${phrase}\\b`).test(lower)),
      ]),
    ].map((word) => `"${word}" is out of use: ${words.get(word) ?? ''}`);
    const limit = /\b(?:most|least)[A-Z]\w*/.exec(content)?.[0];
    if (isCode && limit !== undefined)
      messages.push(`"${limit}": the name of a limit begins with max or min`);
    const subject = isCode ? withoutSubject.exec(content)?.[1] : undefined;
    if (subject !== undefined)
      messages.push(`a sentence begins with "${subject}": name its subject`);
    if (isCode && content.length > maxCommentWidth && /^\s*(?:\/\/|\/?\*|#) /.test(content)) {
      messages.push(`a comment is at most ${maxCommentWidth} characters wide`);
    }
    return messages.map((message) => ({ line, message }));
  });
}

function main(): void {
  const words = wordsOutOfUse();
  const files = globSync(covered, { cwd: root, exclude: excluded }).sort();
  const lines = files.flatMap((file) => {
    const isCode = !file.endsWith('.md');
    return check(
      readFileSync(join(root, file), 'utf8'),
      isCode ? words.inCode : words.inDocuments,
      isCode,
    ).map(({ line, message }) => `${file}:${line}: ${message}`);
  });
  if (lines.length === 0) return;
  process.stderr.write(
    `${lines.join('\n')}\n${lines.length} places break the rules of ${glossary}\n`,
  );
  process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
