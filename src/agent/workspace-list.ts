import { readFileSync } from 'node:fs';
import { shellCommand } from './shell-quote.ts';

/** The files below a folder. */
export interface FileList {
  /** Paths relative to the folder, sorted; bytes that are no UTF-8 are replaced. */
  readonly names: readonly string[];
  /** Whether the folder has more files. */
  readonly isTruncated: boolean;
}

/** Maximum bytes of each of the two lists that the program prints. */
const maxListBytes = 1024 * 1024;
export const maxFiles = 10_000;
/** Maximum characters of the output: both lists as base64, in lines. */
export const maxListOutput = 3 * maxListBytes;

const program = readFileSync(new URL('./workspace-files.sh', import.meta.url), 'utf8');

/** Returns a command for /bin/sh that prints the files below a folder for `fileListOf`. */
export const listCommand = (folder: string, maxBytes = maxListBytes): string =>
  shellCommand(program, folder, maxBytes);

const separator = Buffer.from([0, 0]);

/** Returns the files in the output of `listCommand`. Output that is no list has no files. */
export function fileListOf(output: string, max = maxFiles): FileList {
  const bytes = Buffer.from(output, 'base64');
  const at = bytes.indexOf(separator);
  if (at < 0) return { names: [], isTruncated: false };
  const [gone] = namesIn(bytes.subarray(0, at + 1));
  const [names, rest] = namesIn(bytes.subarray(at + separator.length));
  const isGone = new Set(gone);
  const known = [...new Set(names)].filter((name) => !isGone.has(name));
  const short = known.filter((name) => name.length <= maxPathLength);
  const there = withoutFolders(short).toSorted();
  return {
    names: there.slice(0, max),
    isTruncated: rest !== '' || short.length < known.length || there.length > max,
  };
}

/** Names that end with a NUL, and the text after the last NUL. */
function namesIn(bytes: Buffer): readonly [names: readonly string[], rest: string] {
  const parts = bytes.toString('utf8').split('\0');
  const names = parts.slice(0, -1).map((name) => name.replace(/^\.\//, ''));
  return [names.filter((name) => name !== ''), parts.at(-1) ?? ''];
}

/** Maximum UTF-16 units of a path; Linux opens no longer ones, but an agent may name some. */
const maxPathLength = 4_096;

/**
 * Names in order, without folders: git lists a repository in a repository as if it were a file. In
 * an order in which "/" comes first, a folder is directly before what is in it.
 */
function withoutFolders(names: readonly string[]): readonly string[] {
  // `join` makes a flat text; that of `replaceAll` is a tree, which is ten times slower to compare.
  const keyed = names.map((name) => name.split('/').join('\0')).sort();
  return keyed
    .filter(
      (key, index) => !key.endsWith('\0') && keyed[index + 1]?.startsWith(`${key}\0`) !== true,
    )
    .map((key) => key.split('\0').join('/'));
}
