import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { isKey, isSegment, StoreError, type StoreErrorCode } from './object-store.ts';

/** Codes of the system that do not mean `unavailable`. */
const codes: ReadonlyMap<string, StoreErrorCode> = new Map([
  ['EACCES', 'denied'],
  ['EPERM', 'denied'],
  ['EROFS', 'denied'],
  ['EISDIR', 'invalid'],
  ['ENOTDIR', 'invalid'],
  ['ENOTEMPTY', 'invalid'],
  ['ELOOP', 'invalid'],
  ['ENAMETOOLONG', 'invalid'],
  ['EFBIG', 'invalid'],
  // A folder of the store is the root of another file system.
  ['EXDEV', 'invalid'],
  ['EINVAL', 'invalid'],
]);

/** Returns the error of a store for one of the file system. `action`: `store a/b`, for example. */
export function folderErrorOf(error: unknown, action: string): StoreError {
  if (error instanceof StoreError) return error;
  const systemCode = systemCodeOf(error) ?? 'an unknown error';
  const message = `The folder of the store can not ${action}: ${systemCode}`;
  return new StoreError(codes.get(systemCode) ?? 'unavailable', message, { cause: error });
}

export interface FolderListOptions {
  readonly directory: string;
  readonly prefix: string;
  readonly summed: boolean;
  readonly after: string;
  readonly signal: AbortSignal;
  /** Maximum names of one folder in memory. */
  readonly batchSize: number;
}

/** Name within a folder, with a `/` at the end for a folder: the order of keys is theirs then. */
type Entry = string;

/**
 * Yields the keys, and the prefixes of a summed list, in ascending order. Reads only the folders
 * that the caller's next name needs, and holds at most `batchSize` names for each level of
 * folders: a larger folder is read several times.
 */
export async function* listFolder(options: FolderListOptions): AsyncGenerator<string> {
  const { prefix, summed, after } = options;
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const isWanted = (key: string) =>
    key.startsWith(prefix) && (key > after || (!summed && isAround(key, after)));
  for await (const key of entriesOf(folder, isWanted, options)) {
    if (!key.endsWith('/')) yield key;
    else if (!summed) yield* keysIn(key, options);
    else if (await hasKeys(key, options)) yield key;
  }
}

/** All keys of a folder behind `after`. */
async function* keysIn(folder: string, options: FolderListOptions): AsyncGenerator<string> {
  const { after } = options;
  const isWanted = (key: string) => key > after || isAround(key, after);
  for await (const key of entriesOf(folder, isWanted, options)) {
    if (key.endsWith('/')) yield* keysIn(key, options);
    else yield key;
  }
}

/** A folder without keys is what a deletion is about to remove, and no prefix. */
async function hasKeys(folder: string, options: FolderListOptions): Promise<boolean> {
  const keys = keysIn(folder, { ...options, after: '' });
  const { done } = await keys.next();
  await keys.return(undefined);
  return done !== true;
}

/** Whether keys of a folder can be behind a name although the folder's own is not. */
const isAround = (key: string, after: string): boolean =>
  key.endsWith('/') && after.startsWith(key);

/** The keys of files and links, and those of folders with a `/`, in ascending order. */
async function* entriesOf(
  folder: string,
  isWanted: (key: string) => boolean,
  options: FolderListOptions,
): AsyncGenerator<string> {
  const { batchSize, directory, signal } = options;
  for (let last = ''; ;) {
    const start = last;
    const batch = smallest(batchSize);
    for await (const entry of entriesIn(join(directory, folder))) {
      signal.throwIfAborted();
      const key = `${folder}${entry}`;
      if (key > start && isWanted(key)) batch.add(key);
    }
    const keys = batch.sorted();
    yield* keys;
    if (keys.length < batchSize) return;
    last = keys.at(-1) ?? '';
  }
}

/** Yields nothing for a folder that does not exist; another process may have removed it. */
async function* entriesIn(path: string): AsyncGenerator<Entry> {
  try {
    for await (const entry of await opendir(path)) {
      if (!isSegment(entry.name)) continue;
      if (entry.isFile() || entry.isSymbolicLink()) yield entry.name;
      else if (entry.isDirectory()) yield `${entry.name}/`;
    }
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) throw error;
  }
}

/** Keeps the smallest keys of those added. */
function smallest(size: number) {
  let kept: string[] = [];
  const shrink = () => {
    kept = kept.sort(byBytes).slice(0, size);
  };
  return {
    add(key: string) {
      // A name that makes the path too long is no key.
      if (!isKey(key.endsWith('/') ? key.slice(0, -1) : key)) return;
      kept.push(key);
      if (kept.length >= 2 * size) shrink();
    },
    sorted(): readonly string[] {
      shrink();
      return kept;
    },
  };
}

/** Keys are ASCII, so that the order of their UTF-16 units is the order of their bytes. */
const byBytes = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
