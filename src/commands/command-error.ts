/** Ends the command with this one line on standard error and exit code 1, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** The code of a system error (ENOENT, EADDRINUSE, …), or undefined. */
export const systemCodeOf = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
