import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { SandboxKeys } from '../agent/keys.ts';
import { CommandError, systemCodeOf } from './command-error.ts';
import type { DataFolder } from './data-folder.ts';

const keyBytes = 32;

/** The master key of an embedded installation: made once, kept in the data folder for this user alone. */
export function localMasterKey(folder: DataFolder): SandboxKeys {
  const text = folder.remember('master-key', () => randomBytes(keyBytes).toString('hex'));
  const key = Buffer.from(text, 'hex');
  if (key.length !== keyBytes)
    throw new CommandError(`DATA_DIR: ${folder.file('master-key')} is damaged; it has to hold ${keyBytes} bytes in hex`);
  return new SandboxKeys([key]);
}

/** Master keys from mounted files, the current one first. */
export function mountedMasterKeys(files: readonly string[]): SandboxKeys {
  const keys = files.map((file) => {
    try {
      return readFileSync(file);
    } catch (error) {
      throw new CommandError(`MASTER_KEY_FILES: ${file} can't be read (${systemCodeOf(error) ?? String(error)})`, { cause: error });
    }
  });
  try {
    return new SandboxKeys(keys);
  } catch (error) {
    throw new CommandError(`MASTER_KEY_FILES: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}
