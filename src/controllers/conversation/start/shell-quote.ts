/** Quotes a text for /bin/sh, so that no character in the text has a special meaning. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
