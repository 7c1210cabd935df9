import { isConflict } from '@conversation-operator/kube/errors';

const maxAttempts = 5;

/**
 * Reads an object, and writes on the version that was read; again on the next version after a
 * failure that passes: a conflict, unless the caller names others as well.
 */
export async function writeOnStored<S, R>(
  read: () => Promise<S>,
  write: (stored: S) => Promise<R>,
  isPassing: (error: unknown) => boolean = isConflict,
): Promise<R> {
  for (let attempt = 1; ; attempt++) {
    const stored = await read();
    try {
      return await write(stored);
    } catch (error) {
      if (!isPassing(error) || attempt === maxAttempts) throw error;
    }
  }
}
