import type { Result } from '@conversation-operator/kube/controller';

/**
 * Lets one of several controllers work on an object at a time. A cache says which of them an object belongs to, and it may be behind, so
 * that two of them can take the same object.
 */
export class OneAtATime {
  /** By the uid of the object: what to do once the work on it has ended. */
  readonly #inWork = new Map<string, { again: (() => void) | undefined }>();

  /** Does the work; while other work on this object goes on, calls `again` after that has ended instead. */
  async run(uid: string, work: () => Promise<Result>, again: () => void): Promise<Result> {
    const other = this.#inWork.get(uid);
    if (other !== undefined) {
      other.again = again;
      return undefined;
    }
    const own: { again: (() => void) | undefined } = { again: undefined };
    this.#inWork.set(uid, own);
    try {
      return await work();
    } finally {
      this.#inWork.delete(uid);
      own.again?.();
    }
  }
}
