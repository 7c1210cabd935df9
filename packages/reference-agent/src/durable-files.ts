import { mkdir, open, rename, rm } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';

/** What a crash has left half-made starts with this; nobody looks into it. */
export const unfinishedPrefix = '.unfinished-';

/** Makes a rename or a new entry in the folder survive a power loss. */
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

/** The file has the old content or the new, never something between. */
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

/** The folder is there with all its files, or not at all. Fails when it exists. */
export async function createFolder(path: string, files: Readonly<Record<string, string>>): Promise<void> {
  const parent = dirname(path);
  const unfinished = join(parent, `${unfinishedPrefix}${randomUUID()}`);
  try {
    await mkdir(unfinished, { mode: 0o700 });
    for (const [name, data] of Object.entries(files)) await writeSynced(join(unfinished, name), data);
    await syncFolder(unfinished);
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true, recursive: true });
    throw error;
  }
  await syncFolder(parent);
}

/** Gone at once; the files go afterwards. */
export async function removeFolder(path: string): Promise<void> {
  const parent = dirname(path);
  const unfinished = join(parent, `${unfinishedPrefix}${randomUUID()}`);
  await rename(path, unfinished);
  await syncFolder(parent);
  await rm(unfinished, { force: true, recursive: true });
}
