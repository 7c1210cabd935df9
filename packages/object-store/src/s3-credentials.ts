import { systemCodeOf } from '@conversation-operator/base/system-code';
import { constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from './object-store.ts';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** Absent: the credentials do not expire. */
  readonly expiration?: Date;
}

/**
 * Returns credentials, or rejects with a `StoreError`. AWS's client calls this function before the
 * first request, in the last 5 minutes before the expiry, and after the store has rejected them.
 */
export type CredentialSource = () => Promise<Credentials>;

/** Minimum time between two reads of the files, unless the store rejects the credentials. */
const readEveryMs = 5000;
/** AWS's client renews credentials this long before they expire. */
const renewBeforeMs = 300_000;

/**
 * Reads credentials from the files `access-key-id`, `secret-access-key` and, if present,
 * `session-token` of a folder such as a mounted Secret. Reads changed files again.
 */
export function directoryCredentials(directory: string): CredentialSource {
  const read = async (name: string): Promise<string> => {
    const path = join(directory, name);
    const text = await textOf(path);
    const problem = text === undefined ? 'does not exist' : 'contains no credential';
    // An HTTP header cannot contain other characters.
    if (text !== undefined && /^[\x21-\x7e]{1,16384}$/.test(text)) return text;
    throw new StoreError('denied', `The file ${path} ${problem}`);
  };
  return async () => ({
    accessKeyId: await read('access-key-id'),
    secretAccessKey: await read('secret-access-key'),
    // A Secret may have an empty `session-token`.
    ...(Boolean(await textOf(join(directory, 'session-token'))) && {
      sessionToken: await read('session-token'),
    }),
    expiration: new Date(Date.now() + renewBeforeMs + readEveryMs),
  });
}

/** Returns a file's content without surrounding white space; undefined if the file is absent. */
async function textOf(path: string): Promise<string | undefined> {
  try {
    // Without O_NONBLOCK a pipe in place of the file would block a thread.
    const flag = constants.O_RDONLY | constants.O_NONBLOCK;
    return (await readFile(path, { encoding: 'utf8', flag })).trim();
  } catch (error) {
    const code = systemCodeOf(error) ?? 'an unknown error';
    if (code === 'ENOENT') return undefined;
    throw new StoreError('denied', `The file ${path} can not be read: ${code}`, { cause: error });
  }
}
