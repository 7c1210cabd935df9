import { mkdir, open, rename, rm } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';

/** Prefix of incomplete files and folders, which a crash may leave behind. No reader opens them. */
export const unfinishedPrefix = '.unfinished-';

/** Syncs a folder, so that a rename or a new entry survives a power loss. */
async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeSynced(path: string, data: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600);
  try {
    await handle.writeFile(data);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Replaces a file atomically: the file has either the old or the new content. */
export async function replaceFile(path: string, data: string): Promise<void> {
  const folder = dirname(path);
  const unfinished = join(folder, `${unfinishedPrefix}${randomUUID()}`);
  try {
    await writeSynced(unfinished, data);
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  await syncFolder(folder);
}

/** Creates a folder with all its files atomically. Fails if the folder exists. */
export async function createFolder(
  path: string,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  const parent = dirname(path);
  const unfinished = join(parent, `${unfinishedPrefix}${randomUUID()}`);
  try {
    await mkdir(unfinished, { mode: 0o700 });
    for (const [name, data] of Object.entries(files))
      await writeSynced(join(unfinished, name), data);
    await syncFolder(unfinished);
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true, recursive: true });
    throw error;
  }
  await syncFolder(parent);
}

/** Removes a folder atomically by a rename, and deletes its files afterwards. */
export async function removeFolder(path: string): Promise<void> {
  const parent = dirname(path);
  const unfinished = join(parent, `${unfinishedPrefix}${randomUUID()}`);
  await rename(path, unfinished);
  await syncFolder(parent);
  await rm(unfinished, { force: true, recursive: true });
}
