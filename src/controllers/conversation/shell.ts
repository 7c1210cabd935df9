/** Single quotes for /bin/sh: nothing inside has a meaning. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A command for /bin/sh that runs the program with the arguments. */
export const shellCommand = (program: string, ...values: readonly (string | number)[]): string =>
  `set -- ${values.map((value) => shellQuote(String(value))).join(' ')}\n${program}`;
