import { systemCodeOf } from '@conversation-operator/base/system-code';

/** Ends the command with this one line on standard error and exit code 1, without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** The error of a setting whose file or folder the system does not let this process read. */
export const unreadable = (setting: string, path: string, cause: unknown): CommandError =>
  new CommandError(`${setting}: ${path} can't be read (${systemCodeOf(cause) ?? String(cause)})`, {
    cause,
  });

/** Names the setting of a port in the error of a server that finds the port in use. */
export const portInUse =
  (setting: string, port: number) =>
  (cause: unknown): never => {
    if (systemCodeOf(cause) !== 'EADDRINUSE') throw cause;
    throw new CommandError(`${setting}: port ${port} is in use`, { cause });
  };

/** Aligned columns for a terminal; the first row is the head. */
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

/** The text of another program in one line of a report, with a mark where the line is truncated. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= maxCharacters ? line : `${line.slice(0, maxCharacters)}…`;
}
