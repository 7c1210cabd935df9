import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { isKey, isSegment, StoreError, type StoreErrorCode } from './object-store.ts';

/** System error codes that do not mean `unavailable`. */
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

/** Converts a file system error to a StoreError. `action` is for example `store a/b`. */
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
}

/** Name within a folder, with a `/` at the end for a folder, so that names sort like keys. */
type Entry = string;

/** Yields the keys, and the prefixes of a summed list, in ascending order. Reads folders lazily. */
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

/** Yields all keys of a folder after `after`. */
async function* keysIn(folder: string, options: FolderListOptions): AsyncGenerator<string> {
  const { after } = options;
  const isWanted = (key: string) => key > after || isAround(key, after);
  for await (const key of entriesOf(folder, isWanted, options)) {
    if (key.endsWith('/')) yield* keysIn(key, options);
    else yield key;
  }
}

/** A folder without keys is about to be removed by a deletion, and is no prefix. */
async function hasKeys(folder: string, options: FolderListOptions): Promise<boolean> {
  const keys = keysIn(folder, { ...options, after: '' });
  const { done } = await keys.next();
  await keys.return(undefined);
  return done !== true;
}

/** Whether keys of a folder can follow a name although the folder's own key does not. */
const isAround = (key: string, after: string): boolean =>
  key.endsWith('/') && after.startsWith(key);

/** Yields the keys of files and links, and those of folders with a `/`, in ascending order. */
async function* entriesOf(
  folder: string,
  isWanted: (key: string) => boolean,
  options: FolderListOptions,
): AsyncGenerator<string> {
  const { directory, signal } = options;
  const keys: string[] = [];
  for await (const entry of entriesIn(join(directory, folder))) {
    signal.throwIfAborted();
    const key = `${folder}${entry}`;
    // A name that makes the path too long is no key.
    if (isKey(key.endsWith('/') ? key.slice(0, -1) : key) && isWanted(key)) keys.push(key);
  }
  // Keys are ASCII, so that the order of their UTF-16 units is the order of their bytes.
  yield* keys.sort();
}

/** Yields nothing for an absent folder, which another process may have removed. */
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
