/** Quotes a text for /bin/sh, so that no character in the text has a special meaning. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export const shellCommand = (program: string, ...values: readonly (string | number)[]): string =>
  `set -- ${values.map((value) => shellQuote(String(value))).join(' ')}\n${program}`;
