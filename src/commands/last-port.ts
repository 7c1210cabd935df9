import { createServer } from 'node:net';
import type { DataFolder } from './data-folder.ts';

const loopback = '127.0.0.1';

/**
 * The port in a file of the data folder where it is free, else 0, for any. A port that stays the
 * same over restarts keeps addresses alive that others have stored.
 */
export async function lastPort(folder: DataFolder, file: string): Promise<number> {
  const last = Number(folder.read(file));
  return Number.isInteger(last) && last > 0 && last < 65_536 && (await isFree(last)) ? last : 0;
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, loopback, () => probe.close(() => resolve(true)));
  });
