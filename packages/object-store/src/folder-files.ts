import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { isKey, isSegment, StoreError, type StoreErrorCode } from './object-store.ts';

/** Codes of a StoreError by the system's error code. All other system errors mean `unavailable`. */
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
  // A folder of the store is a mount point, so that `rename` would cross file systems.
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

/** Name in a folder. The name of a folder ends in `/`, so that names sort like keys. */
type Entry = string;

/** Yields keys, and common prefixes if `summed`, in ascending order. Reads folders on demand. */
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

/** Yields the keys in a folder and its subfolders that follow `options.after`. */
async function* keysIn(folder: string, options: FolderListOptions): AsyncGenerator<string> {
  const { after } = options;
  const isWanted = (key: string) => key > after || isAround(key, after);
  for await (const key of entriesOf(folder, isWanted, options)) {
    if (key.endsWith('/')) yield* keysIn(key, options);
    else yield key;
  }
}

/** Whether a folder contains keys. An empty one is not a prefix, and a deletion will remove it. */
async function hasKeys(folder: string, options: FolderListOptions): Promise<boolean> {
  const keys = keysIn(folder, { ...options, after: '' });
  const { done } = await keys.next();
  await keys.return(undefined);
  return done !== true;
}

/** Whether `key` is a folder that contains `after`, so that keys in it may follow `after`. */
const isAround = (key: string, after: string): boolean =>
  key.endsWith('/') && after.startsWith(key);

/** Yields the keys of files and links, and of folders with a `/` at the end, in ascending order. */
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
    // A file or folder whose key would be too long is not listed.
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
