/** Quotes a text for /bin/sh, so that the shell interprets none of its characters. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export const shellCommand = (program: string, ...values: readonly (string | number)[]): string =>
  `set -- ${values.map((value) => shellQuote(String(value))).join(' ')}\n${program}`;
