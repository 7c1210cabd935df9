/** Single quotes for /bin/sh: nothing inside has a meaning. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
