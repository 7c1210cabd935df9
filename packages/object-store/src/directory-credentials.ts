import { join } from 'node:path';
import type { Clock } from '@conversation-operator/base/clock';
import { isCredential } from './credential-call.ts';
import { readCredentialFile } from './credential-files.ts';
import type { Credentials, CredentialSource } from './credentials.ts';
import { StoreError } from './store-error.ts';

export interface DirectoryCredentialsOptions {
  /** A folder with the files `access-key-id`, `secret-access-key`, and optionally `session-token`. */
  readonly directory: string;
  readonly clock: Clock;
}

/** Time for which files are not read again, unless the store rejects what they contain. */
const checkEveryMs = 5000;
/** Reads until two in a row agree: the files of a mounted Secret change one after the other. */
const maxReads = 10;

/** Credentials of files, which are read again when they change. */
export function directoryCredentials({
  directory,
  clock,
}: DirectoryCredentialsOptions): CredentialSource {
  let current: Credentials | undefined;
  let checkedAt = -Infinity;
  let running: Promise<Credentials> | undefined;

  const read = async (): Promise<Credentials> => {
    const found = await readTwice(directory);
    checkedAt = clock.monotonic();
    current = current !== undefined && isSame(current, found) ? current : found;
    return current;
  };
  return async (rejected) => {
    const isFresh = clock.monotonic() < checkedAt + checkEveryMs;
    if (current !== undefined && isFresh && current !== rejected) return current;
    return await (running ??= read().finally(() => {
      running = undefined;
    }));
  };
}

async function readTwice(directory: string): Promise<Credentials> {
  let last = await readOnce(directory);
  for (let reads = 1; reads < maxReads; reads += 1) {
    const next = await readOnce(directory);
    if (isSame(last, next)) return next;
    last = next;
  }
  throw new StoreError('unavailable', `The files of ${directory} do not stop changing`);
}

async function readOnce(directory: string): Promise<Credentials> {
  const read = (name: string) => readCredentialFile(join(directory, name));
  const accessKeyId = await read('access-key-id');
  const secretAccessKey = await read('secret-access-key');
  const sessionToken = await read('session-token');
  const check = (name: string, value: string | undefined): string => {
    const problem = value === undefined ? 'does not exist' : 'contains no credential';
    if (isCredential(value)) return value;
    throw new StoreError('denied', `The file ${join(directory, name)} ${problem}`);
  };
  return {
    accessKeyId: check('access-key-id', accessKeyId),
    secretAccessKey: check('secret-access-key', secretAccessKey),
    // An empty file is a key of a Secret that is not in use.
    ...(sessionToken !== undefined &&
      sessionToken !== '' && { sessionToken: check('session-token', sessionToken) }),
  };
}

const isSame = (a: Credentials, b: Credentials): boolean =>
  a.accessKeyId === b.accessKeyId &&
  a.secretAccessKey === b.secretAccessKey &&
  a.sessionToken === b.sessionToken;
