/** The storage can't be opened or written. The message says in one sentence what is wrong and with which file. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly code: 'Locked' | 'Corrupt' | 'TooNew' | 'Unusable' | 'WriteFailed' | 'Closed';

  constructor(code: StorageError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
