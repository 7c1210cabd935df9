import { DatabaseSync } from 'node:sqlite';
import { setTimeout as wait } from 'node:timers/promises';

const retryMs = 300;
/** SQLite's primary result codes for what another process holds. */
const held: readonly unknown[] = [5, 6];

const isHeld = (error: unknown): boolean =>
  typeof error === 'object' &&
  error !== null &&
  'errcode' in error &&
  typeof error.errcode === 'number' &&
  held.includes(error.errcode & 0xff);

function take(file: string): DatabaseSync | undefined {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
    return database;
  } catch (error) {
    database.close();
    if (isHeld(error)) return undefined;
    throw error;
  }
}

/**
 * Does the work while no other process does what is locked by this file. The lock is the system's
 * own: it ends with the process, however that ends. Rejects with the signal's reason when it is
 * aborted while it waits.
 */
export async function whileLocked<T>(
  file: string,
  { signal, onWait }: { readonly signal: AbortSignal; readonly onWait: () => void },
  work: () => Promise<T>,
): Promise<T> {
  let lock = take(file);
  if (lock === undefined) onWait();
  while (lock === undefined) {
    await wait(retryMs, undefined, { signal });
    lock = take(file);
  }
  try {
    return await work();
  } finally {
    lock.close();
  }
}
