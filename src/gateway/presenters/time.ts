/** ISO 8601 in UTC with microseconds and Z, whatever RFC 3339 form the resource has it in. */
export const wireTime = (text: string): string => new Date(text).toISOString().replace('Z', '000Z');

/** The latest of some RFC 3339 times, in ISO form; absent ones do not count. */
export const latest = (first: string, ...others: readonly (string | undefined)[]): string =>
  new Date(
    Math.max(
      ...[first, ...others].filter((time) => time !== undefined).map((time) => Date.parse(time)),
    ),
  ).toISOString();
