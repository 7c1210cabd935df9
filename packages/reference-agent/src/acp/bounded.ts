/** Maximum characters of the input, the output and the content of a tool call, as JSON each. */
export const maxDataCharacters = 30_000;

/** Data of a tool as it is, or the beginning of its JSON where that is too long. */
export function bounded(value: unknown, maxCharacters = maxDataCharacters): unknown {
  if (value === undefined || value === null) return undefined;
  const text = JSON.stringify(value);
  if (text.length <= maxCharacters) return value;
  return `${text.slice(0, maxCharacters)}… (${text.length - maxCharacters} characters omitted)`;
}
