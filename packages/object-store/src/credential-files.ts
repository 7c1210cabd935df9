import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { StoreError } from './store-error.ts';

const maxFileBytes = 16 * 1024;

/**
 * Returns the content of a file without white space around it; undefined: there is no such file.
 * Rejects with a `denied` error for a file that can not be read, or is too large.
 */
export async function readCredentialFile(path: string): Promise<string | undefined> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(maxFileBytes + 1));
      if (bytesRead > maxFileBytes)
        throw new StoreError('denied', `The file ${path} is larger than ${maxFileBytes} bytes`);
      return buffer.toString('utf8', 0, bytesRead).trim();
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof StoreError) throw error;
    const code = systemCodeOf(error) ?? 'an unknown error';
    if (code === 'ENOENT') return undefined;
    throw new StoreError('denied', `The file ${path} can not be read: ${code}`, { cause: error });
  }
}
