/** Ends the command with this one line on standard error and exit code 1, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}
