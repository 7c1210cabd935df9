/**
 * - gone: an object of the archive does not exist.
 * - damaged: an object is not what its name or the head says, or no known key opens it.
 */
export type ArchiveErrorCode = 'gone' | 'damaged';

/** Error of an archive. The message names the object, and contains nothing of its text. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
  readonly code: ArchiveErrorCode;

  constructor(code: ArchiveErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether an object of an archive does not exist. */
export const isGone = (error: unknown): error is ArchiveError =>
  error instanceof ArchiveError && error.code === 'gone';
