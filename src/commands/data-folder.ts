import {
  accessSync,
  constants,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { CommandError, unreadable } from './terminal.ts';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { createServer } from 'node:net';

/** The folder that holds all state of an embedded installation. */
export class DataFolder {
  readonly path: string;

  /** Makes the folder, readable by this user alone. Throws `CommandError` when it can't be used. */
  constructor(path: string) {
    this.path = resolve(path);
    try {
      mkdirSync(this.path, { recursive: true, mode: 0o700 });
      if (!statSync(this.path).isDirectory())
        throw new CommandError(`DATA_DIR: ${this.path} is not a folder`);
      accessSync(this.path, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch (error) {
      if (error instanceof CommandError) throw error;
      const code = systemCodeOf(error);
      const problem =
        code === 'EEXIST' || code === 'ENOTDIR'
          ? 'is not a folder'
          : `can't be used (${code ?? String(error)})`;
      throw new CommandError(`DATA_DIR: ${this.path} ${problem}`, { cause: error });
    }
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** The text of a file without surrounding white space, or undefined when there is none. */
  read(name: string): string | undefined {
    try {
      return readFileSync(this.file(name), 'utf8').trim();
    } catch (error) {
      if (systemCodeOf(error) === 'ENOENT') return undefined;
      throw unreadable('DATA_DIR', this.file(name), error);
    }
  }

  /** Writes a file that only this user can read, whole or not at all. */
  write(name: string, text: string): void {
    const unfinished = this.file(`.${name}.new`);
    writeFileSync(unfinished, `${text}\n`, { mode: 0o600 });
    renameSync(unfinished, this.file(name));
  }

  /** Content of the file; `make` creates it at the first call. */
  remember(name: string, make: () => string): string {
    const known = this.read(name);
    if (known !== undefined && known !== '') return known;
    const made = make();
    this.write(name, made);
    return made;
  }
}

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
