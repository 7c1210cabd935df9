import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { SandboxKeys } from '../agent/keys.ts';
import { every } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import { CommandError, unreadable } from './terminal.ts';
import type { DataFolder } from './data-folder.ts';

const keyBytes = 32;

/** Master key of an embedded installation, made once in the data folder for this user alone. */
export function localMasterKey(folder: DataFolder): SandboxKeys {
  const text = folder.remember('master-key', () => randomBytes(keyBytes).toString('hex'));
  const key = Buffer.from(text, 'hex');
  if (key.length !== keyBytes)
    throw new CommandError(
      `DATA_DIR: ${folder.file('master-key')} is damaged; it has to hold ${keyBytes} bytes in hex`,
    );
  return new SandboxKeys([key]);
}

/** Secrets reach their mounts about a minute after a change, so this loses no time. */
const reloadIntervalMs = 10_000;

export interface MountedMasterKeysOptions extends Pick<Runtime, 'clock' | 'logger'> {
  /** The current one first. */
  readonly files: readonly string[];
}

/** Master keys from mounted files, read again after changes; unusable ones change nothing. */
export function mountedMasterKeys({ files, clock, logger }: MountedMasterKeysOptions) {
  let known = readAll(files);
  const keys = keysOf(known);
  let problem: string | undefined;
  const timer = every(clock, reloadIntervalMs, () => {
    try {
      const now = readAll(files);
      if (now.some((key, index) => known[index]?.equals(key) !== true)) {
        keys.replace(now);
        known = now;
        logger.info('master keys changed', { currentKeyId: keys.currentKeyId });
      }
      problem = undefined;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (message !== problem)
        logger.error('master keys can not be read again; the old ones stay in use', {
          error: message,
        });
      problem = message;
    }
  });
  return { keys, close: () => timer.cancel() };
}

/** Master keys from files, the current one first. */
export const readMasterKeys = (files: readonly string[]): SandboxKeys => keysOf(readAll(files));

const readAll = (files: readonly string[]): readonly Buffer[] =>
  files.map((file) => {
    try {
      return readFileSync(file);
    } catch (error) {
      throw unreadable('MASTER_KEY_FILES', file, error);
    }
  });

function keysOf(masterKeys: readonly Buffer[]): SandboxKeys {
  try {
    return new SandboxKeys(masterKeys);
  } catch (error) {
    throw new CommandError(
      `MASTER_KEY_FILES: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}
