import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, mkdir, open, opendir, rename, rm, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { withDeadline, runningCalls, inBatches, inParallel } from './calls.ts';
import { folderErrorOf, listFolder } from './folder-files.ts';
import {
  checkBody,
  checkedList,
  checkKey,
  checkRange,
  maxObjectBytes,
  type ByteRange,
  type ListPage,
  type ObjectStore,
  type StoreCallOptions,
  type StoredName,
  StoreError,
} from './object-store.ts';

export interface FolderStoreOptions {
  /** An existing folder, whose files are the objects. Their relative paths are the keys. */
  readonly directory: string;
  /** Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  /** Maximum time of a call, or of a deletion of 1,000 keys, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

/** Folder of incomplete files. Segments of keys contain no `~`, so that no key has this name. */
const unfinishedFolder = '.unfinished~';
/** Age beyond which an incomplete file belongs to a process that has crashed. */
const abandonedAfterMs = 3_600_000;
const deletionsAtOnce = 4;
const deletionsOfBatch = 1000;

/**
 * Stores objects as files of a folder, which several processes and machines may share. An object is
 * written to a separate file, synced, and renamed to its key, so that neither a reader nor a crash
 * sees a part of it. `list` includes symbolic links below the folder. `get` rejects with an
 * `invalid` error instead of following a link, so that no caller takes the object for absent.
 */
export function createFolderStore(options: FolderStoreOptions): ObjectStore {
  const { clock = systemClock, timeoutMs = 10_000 } = options;
  const directory = resolve(options.directory);
  const calls = runningCalls();
  /** Running work on files, which continues after the deadline of its call. */
  const working = new Set<Promise<unknown>>();

  const call = <T>(
    action: string,
    { signal }: StoreCallOptions,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const traced = (inner: AbortSignal) => {
      const promise = work(inner).catch((error: unknown) => {
        throw inner.aborted ? inner.reason : folderErrorOf(error, action);
      });
      working.add(promise);
      const end = () => void working.delete(promise);
      promise.then(end, end);
      return promise;
    };
    return withDeadline({ clock, timeoutMs, signal, subject: 'The folder of the store' }, traced);
  };

  // A failure is ignored: an abandoned file only takes space, and the next process tries again.
  void calls
    .run(() => call('remove abandoned files', {}, () => removeAbandoned(directory, clock.now())))
    .catch(() => undefined);

  return {
    put: (key, body, callOptions = {}) =>
      calls.run(async () => {
        checkKey(key);
        checkBody(key, body);
        await call(`store ${key}`, callOptions, (signal) => put(directory, key, body, signal));
      }),
    get: (key, callOptions = {}) =>
      calls.run(async () => {
        const { range } = callOptions;
        checkKey(key);
        if (range !== undefined) checkRange(range);
        return await call(`read ${key}`, callOptions, () => get(directory, key, range));
      }),
    delete: (keys, callOptions = {}) =>
      calls.run(async () => {
        keys.forEach(checkKey);
        for (const batch of inBatches(keys, deletionsOfBatch))
          await call(`delete ${batch.length} objects`, callOptions, (signal) =>
            deleteAll(directory, batch, signal),
          );
      }),
    list: (listOptions) =>
      calls.run(async () => {
        const checked = checkedList(listOptions);
        return await call(`list ${checked.prefix}`, listOptions, (signal) =>
          list(directory, checked, signal),
        );
      }),
    async close() {
      await calls.close();
      await withDeadline({ clock, timeoutMs, subject: 'The folder of the store' }, () =>
        Promise.allSettled(working),
      );
    },
  };
}

/** Rejects with a `missing` error when the folder of the store does not exist. */
async function checkDirectory(directory: string): Promise<void> {
  const found = await unless(['ENOENT', 'ENOTDIR'], stat(directory));
  if (found?.isDirectory() !== true)
    throw new StoreError('missing', 'The folder of the store does not exist');
}

async function put(
  directory: string,
  key: string,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const path = join(directory, key);
  const folders = foldersOf(directory, key);
  for (;;) {
    signal.throwIfAborted();
    const unfinished = join(directory, unfinishedFolder, randomUUID());
    try {
      await makeFolder(directory, dirname(unfinished));
      await writeSynced(unfinished, body);
      for (const folder of folders) await makeFolder(directory, folder);
      signal.throwIfAborted();
      await renameTo(unfinished, path);
      break;
    } catch (error) {
      await rm(unfinished, { force: true });
      // ENOENT: another process has removed a folder of the key after deleting its last object.
      if (systemCodeOf(error) !== 'ENOENT') throw error;
      await checkDirectory(directory);
    }
  }
  // Existing folders are synced too: the process that created them may not have synced them yet.
  for (const folder of [...folders.toReversed(), directory]) await sync(folder);
}

/** Returns the folders below `directory` that contain the file of a key, outermost first. */
function foldersOf(directory: string, key: string): readonly string[] {
  const segments = key.split('/').slice(0, -1);
  return segments.map((_, index) => join(directory, ...segments.slice(0, index + 1)));
}

async function makeFolder(directory: string, folder: string): Promise<void> {
  for (;;) {
    const found = await unless(['ENOENT'], lstat(folder));
    if (found?.isDirectory() === true) return;
    if (found !== undefined) {
      const name = folder.slice(directory.length + 1);
      throw new StoreError('invalid', `${name} is no folder of the store`);
    }
    try {
      await mkdir(folder, 0o770);
      return;
    } catch (error) {
      // Another process has already created the folder.
      if (systemCodeOf(error) !== 'EEXIST') throw error;
    }
  }
}

async function writeSynced(path: string, body: Uint8Array): Promise<void> {
  const handle = await open(path, 'wx', 0o660);
  try {
    await handle.writeFile(body);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Replaces an empty folder. A process that crashes after it deleted an object may leave one. */
async function renameTo(unfinished: string, path: string): Promise<void> {
  try {
    await rename(unfinished, path);
  } catch (error) {
    if (systemCodeOf(error) !== 'EISDIR') throw error;
    await rmdir(path);
    await rename(unfinished, path);
  }
}

/** Ignores an absent folder, which another process may have removed with the last object in it. */
async function sync(folder: string): Promise<void> {
  const handle = await unless(['ENOENT'], open(folder, constants.O_RDONLY | constants.O_DIRECTORY));
  try {
    await handle?.sync();
  } finally {
    await handle?.close();
  }
}

async function get(
  directory: string,
  key: string,
  range: ByteRange | undefined,
): Promise<Buffer | undefined> {
  const handle = (await isBelowFolders(directory, key))
    ? await unless(
        ['ENOENT', 'ENOTDIR', 'ENXIO'],
        // Without O_NONBLOCK a pipe would block a thread until another process writes to it.
        open(
          join(directory, key),
          constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
        ),
      )
    : undefined;
  if (handle === undefined) {
    await checkDirectory(directory);
    return undefined;
  }
  try {
    const found = await handle.stat();
    if (!found.isFile()) return undefined;
    const { offset, length } = range ?? { offset: 0, length: found.size };
    const bytes = Math.max(0, Math.min(length, found.size - offset));
    if (bytes > maxObjectBytes)
      throw new StoreError('invalid', `The object ${key} is larger than ${maxObjectBytes} bytes`);
    return await readFully(handle, offset, bytes);
  } finally {
    await handle.close();
  }
}

async function readFully(
  handle: Awaited<ReturnType<typeof open>>,
  offset: number,
  bytes: number,
): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  for (let done = 0; done < bytes;) {
    const { bytesRead } = await handle.read(buffer, done, bytes - done, offset + done);
    // The store only replaces files, so another program has shortened this one.
    if (bytesRead === 0)
      throw new StoreError('unavailable', 'A file of the store has been shortened');
    done += bytesRead;
  }
  return buffer;
}

/** Whether all folders of a key exist and none is a link, which could lead out of the store. */
async function isBelowFolders(directory: string, key: string): Promise<boolean> {
  for (const folder of foldersOf(directory, key)) {
    const found = await unless(['ENOENT', 'ENOTDIR'], lstat(folder));
    if (found?.isDirectory() !== true) return false;
  }
  return true;
}

async function deleteAll(
  directory: string,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await checkDirectory(directory);
  const changed = await inParallel(keys, deletionsAtOnce, async (key) => {
    signal.throwIfAborted();
    return await deleteOne(directory, key);
  });
  const folders = new Set(changed.filter((folder) => folder !== undefined));
  await inParallel([...folders], deletionsAtOnce, sync);
}

/** Deletes an object and its empty folders. Returns the folder whose entry was removed last. */
async function deleteOne(directory: string, key: string): Promise<string | undefined> {
  if (!(await isBelowFolders(directory, key))) return undefined;
  const path = join(directory, key);
  try {
    await unlink(path);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(systemCodeOf(error) ?? '')) return undefined;
    // Some systems respond with EPERM to `unlink` of a folder, which is not an object.
    if (systemCodeOf(error) === 'EPERM' && (await lstat(path)).isDirectory()) return undefined;
    throw error;
  }
  for (const folder of foldersOf(directory, key).toReversed())
    if (!(await isRemoved(folder))) return folder;
  return directory;
}

/** Removes a folder unless it has entries or is in use. Returns whether the folder is gone. */
async function isRemoved(folder: string): Promise<boolean> {
  try {
    await rmdir(folder);
    return true;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return true;
    if (['ENOTEMPTY', 'EEXIST', 'EBUSY'].includes(systemCodeOf(error) ?? '')) return false;
    throw error;
  }
}

async function list(
  directory: string,
  options: ReturnType<typeof checkedList>,
  signal: AbortSignal,
): Promise<ListPage> {
  const { limit } = options;
  await checkDirectory(directory);
  const keys: string[] = [];
  if (await isBelowFolders(directory, options.prefix))
    for await (const key of listFolder({ ...options, directory, signal })) {
      keys.push(key);
      if (keys.length > limit) break;
    }
  const names = await inParallel(keys.slice(0, limit), 4, (key) => nameOf(directory, key));
  return {
    names: names.filter((name) => name !== undefined),
    next: keys.length > limit ? keys[limit - 1] : undefined,
  };
}

/** Returns undefined if another process has deleted the object since the folder was read. */
async function nameOf(directory: string, key: string): Promise<StoredName | undefined> {
  if (key.endsWith('/')) return { key, bytes: 0 };
  const found = await unless(['ENOENT', 'ENOTDIR'], lstat(join(directory, key)));
  if (found?.isSymbolicLink() === true) return { key, bytes: 0 };
  return found?.isFile() === true ? { key, bytes: found.size } : undefined;
}

async function removeAbandoned(directory: string, now: number): Promise<void> {
  const folder = join(directory, unfinishedFolder);
  const entries = await unless(['ENOENT'], opendir(folder));
  for await (const { name } of entries ?? []) {
    const path = join(folder, name);
    const found = await unless(['ENOENT'], lstat(path));
    if (found?.isFile() === true && now - found.mtimeMs > abandonedAfterMs)
      await rm(path, { force: true });
  }
}

/** Returns undefined if the call rejects with a system error that has one of these codes. */
async function unless<T>(codes: readonly string[], call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (codes.includes(systemCodeOf(error) ?? '')) return undefined;
    throw error;
  }
}
