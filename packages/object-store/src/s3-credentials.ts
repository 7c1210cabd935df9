import { systemCodeOf } from '@conversation-operator/base/system-code';
import { constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from './object-store.ts';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** Absent: the credentials do not end by themselves. */
  readonly expiration?: Date;
}

/**
 * Returns credentials: at first, from 5 minutes before their end on, and when the store has
 * rejected the last ones. Rejects with a `StoreError`.
 */
export type CredentialSource = () => Promise<Credentials>;

/** Time for which files are not read again, unless the store rejects what they contain. */
const readEveryMs = 5000;
/** The client of AWS renews credentials so long before their end. */
const renewBeforeMs = 300_000;

/**
 * Credentials of a folder with the files `access-key-id`, `secret-access-key`, and optionally
 * `session-token`, as a mounted Secret. The files are read again when they change.
 */
export function directoryCredentials(directory: string): CredentialSource {
  const read = async (name: string): Promise<string> => {
    const path = join(directory, name);
    const text = await textOf(path);
    const problem = text === undefined ? 'does not exist' : 'contains no credential';
    // Other characters may not be in a header.
    if (text !== undefined && /^[\x21-\x7e]{1,16384}$/.test(text)) return text;
    throw new StoreError('denied', `The file ${path} ${problem}`);
  };
  return async () => ({
    accessKeyId: await read('access-key-id'),
    secretAccessKey: await read('secret-access-key'),
    // An empty file is a key of a Secret that is not in use.
    ...(Boolean(await textOf(join(directory, 'session-token'))) && {
      sessionToken: await read('session-token'),
    }),
    expiration: new Date(Date.now() + renewBeforeMs + readEveryMs),
  });
}

/** The content of a file without white space around it; undefined: there is no such file. */
async function textOf(path: string): Promise<string | undefined> {
  try {
    // Without O_NONBLOCK a pipe in place of the file would hang a thread.
    const flag = constants.O_RDONLY | constants.O_NONBLOCK;
    return (await readFile(path, { encoding: 'utf8', flag })).trim();
  } catch (error) {
    const code = systemCodeOf(error) ?? 'an unknown error';
    if (code === 'ENOENT') return undefined;
    throw new StoreError('denied', `The file ${path} can not be read: ${code}`, { cause: error });
  }
}
