const maxCharacters = 400;

/** The text of another program in one line of a report, with a mark where the line is truncated. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= maxCharacters ? line : `${line.slice(0, maxCharacters)}…`;
}
