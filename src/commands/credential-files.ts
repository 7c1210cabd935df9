import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '@conversation-operator/base/logger';
import { unreadable, CommandError } from './terminal.ts';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { noAgentCredentials, type AgentCredentials } from '../agent/credentials.ts';
import { randomBytes } from 'node:crypto';
import { SandboxKeys } from '../agent/keys.ts';
import { every } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { DataFolder } from './data-folder.ts';

const maxLength = 8192;

/**
 * An owner as part of a file name. The keys of a Secret have letters, digits, `-`, `_` and `.`
 * only, so each other byte, and `_`, becomes `_` and two hex digits: alice@example.com becomes
 * alice_40example.com.
 */
export const fileNameOf = (owner: string): string =>
  owner.replaceAll(/[^A-Za-z0-9.-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `_${byte.toString(16).padStart(2, '0')}`).join(''),
  );

/** Whether a name is safe. Other names could mean an owner's file, or a file outside the folder. */
export const isCredentialName = (name: string): boolean => /^[A-Za-z0-9_-]+$/.test(name);

/** The text without white space around it, if it is valid in an HTTP header; else undefined. */
export function secretLineOf(text: string): string | undefined {
  const secret = text.trim();
  return secret === '' || secret.length > maxLength || /[^\x21-\x7e]/.test(secret)
    ? undefined
    : secret;
}

export interface CredentialFilesOptions {
  readonly folder: string;
  readonly setting: string;
  /** Name of one credential in logs, for example "a git credential". */
  readonly what: string;
  /** Text for logs: the expected content of a file. */
  readonly expected: string;
  readonly logger: Logger;
}

/**
 * - absent: the file does not exist.
 * - unusable: the file has no usable value. The problem is logged.
 */
export type CredentialFile<T> =
  { readonly file: string; readonly value: T } | 'absent' | 'unusable';

/**
 * Credentials from the files of a mounted folder. The file NAME is for all owners; NAME.OWNER takes
 * precedence for one owner. Each call reads the file, so that a change applies at once. The content
 * of a file is never logged.
 */
export class CredentialFiles {
  readonly #options: CredentialFilesOptions;
  readonly #problems = new Map<string, string>();

  constructor(options: CredentialFilesOptions) {
    this.#options = options;
  }

  /** Names of files, without the mount's `..data`. Throws `CommandError` if the read fails. */
  list(): readonly string[] {
    const { folder, setting } = this.#options;
    try {
      return readdirSync(folder).filter((name) => !name.startsWith('.'));
    } catch (error) {
      throw unreadable(setting, folder, error);
    }
  }

  /** The owner's credential, else the shared one; undefined if it is unusable. Never rejects. */
  async of<T>(
    name: string,
    owner: string,
    parse: (text: string) => T | undefined,
  ): Promise<{ readonly file: string; readonly value: T } | undefined> {
    const own = await this.ownOf(name, owner, parse);
    // An invalid credential of the owner is not replaced, as the shared one may permit more.
    const found = own === 'absent' ? await this.everybodysOf(name, parse) : own;
    return typeof found === 'string' ? undefined : found;
  }

  /** The owner's credential only, not the shared one. Never rejects. */
  async ownOf<T>(
    name: string,
    owner: string,
    parse: (text: string) => T | undefined,
  ): Promise<CredentialFile<T>> {
    return isCredentialName(name) ? this.#read(`${name}.${fileNameOf(owner)}`, parse) : 'absent';
  }

  /** The shared credential only, not the owner's. Never rejects. */
  async everybodysOf<T>(
    name: string,
    parse: (text: string) => T | undefined,
  ): Promise<CredentialFile<T>> {
    return isCredentialName(name) ? this.#read(name, parse) : 'absent';
  }

  async #read<T>(file: string, parse: (text: string) => T | undefined): Promise<CredentialFile<T>> {
    const { folder, expected } = this.#options;
    let text: string;
    try {
      text = await readFile(join(folder, file), 'utf8');
    } catch (error) {
      const code = systemCodeOf(error) ?? 'unreadable';
      // ENAMETOOLONG: no file can have such a long name.
      if (code === 'ENOENT' || code === 'ENAMETOOLONG') return 'absent';
      this.#complain(file, code);
      return 'unusable';
    }
    const value = parse(text);
    if (value === undefined) {
      this.#complain(file, expected);
      return 'unusable';
    }
    this.#problems.delete(file);
    return { file, value };
  }

  #complain(file: string, problem: string): void {
    if (this.#problems.get(file) === problem) return;
    this.#problems.set(file, problem);
    this.#options.logger.error(`${this.#options.what} can not be used`, {
      credential: file,
      problem,
    });
  }
}

/** API keys of models from a mounted folder: NAME is shared, NAME.OWNER belongs to one owner. */
export function mountedAgentCredentials(
  folder: string | undefined,
  logger: Logger,
): AgentCredentials {
  if (folder === undefined) return noAgentCredentials;
  const files = new CredentialFiles({
    folder,
    logger,
    setting: 'AGENT_CREDENTIALS_DIR',
    what: 'a model credential',
    expected: 'it has to be one line with the key',
  });
  // Throws for an unreadable folder at the start, not only when a conversation needs a key.
  files.list();
  return { of: async (owner, name) => (await files.of(name, owner, secretLineOf))?.value };
}

const keyBytes = 32;

/** Master key for the command `up`. The first call creates the key in the data folder. */
export function localMasterKey(folder: DataFolder): SandboxKeys {
  const text = folder.remember('master-key', () => randomBytes(keyBytes).toString('hex'));
  const key = Buffer.from(text, 'hex');
  if (key.length !== keyBytes)
    throw new CommandError(
      `DATA_DIR: ${folder.file('master-key')} is damaged; it has to hold ${keyBytes} bytes in hex`,
    );
  return new SandboxKeys([key]);
}

/** Kubelets take about a minute to update a mounted Secret, so this interval adds little delay. */
const reloadIntervalMs = 10_000;

interface MountedMasterKeysOptions extends Pick<Runtime, 'clock' | 'logger'> {
  /** The first file contains the current master key. */
  readonly files: readonly string[];
}

/** Reads master keys from mounted files, and their changes. After an error, the old keys stay. */
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

/** Reads the master keys from files. The first file contains the current master key. */
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
