/**
 * The storage cannot be opened or written. The message names the file and the problem in one
 * sentence.
 */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly code: 'Locked' | 'Corrupt' | 'TooNew' | 'Unusable' | 'WriteFailed' | 'Closed';

  constructor(code: StorageError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
