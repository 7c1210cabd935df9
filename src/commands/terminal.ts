import { systemCodeOf } from '@conversation-operator/base/system-code';

/** Ends the command with exit code 1. Only the message is printed, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** The error for a setting whose file or folder can not be read. */
export const unreadable = (setting: string, path: string, cause: unknown): CommandError =>
  new CommandError(`${setting}: ${path} can't be read (${systemCodeOf(cause) ?? String(cause)})`, {
    cause,
  });

/** Handles an error of a server. If the port is in use, the error names the setting of the port. */
export const portInUse =
  (setting: string, port: number) =>
  (cause: unknown): never => {
    if (systemCodeOf(cause) !== 'EADDRINUSE') throw cause;
    throw new CommandError(`${setting}: port ${port} is in use`, { cause });
  };

/** Aligned columns for a terminal. The first row is the heading. */
export function textTable(rows: readonly (readonly string[])[]): string {
  const widths =
    rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('   ')
        .trimEnd(),
    )
    .join('\n');
}

const maxCharacters = 400;

/** Text of another program in one line. A `…` at the end marks a truncated line. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= maxCharacters ? line : `${line.slice(0, maxCharacters)}…`;
}
