/** Printable ASCII; no fragment, and no backslash, which some take for a slash. */
const plainPath = /^\/(?:[!"$&-[\]-~]|%[0-9A-Fa-f]{2})*$/;
const plainQuery = /^[!-~]*$/;
/**
 * Dots alone, plainly or encoded, with or without a parameter behind them, and between slashes of
 * either spelling.
 */
const dotSegment = /(?:\/|%2f)(?:\.|%2e){1,2}(?=\/|%2f|;|$)/i;
/** Encoded control characters and backslashes. */
const encodedTrouble = /%(?:[01][0-9a-f]|7f|5c)/i;

/**
 * Whether every server and proxy on the way reads the path in the same way. Encoded slashes are
 * allowed: the proxy forwards them as they are.
 */
export function isSafePath(path: string): boolean {
  const query = path.indexOf('?');
  const pathname = query < 0 ? path : path.slice(0, query);
  if (query >= 0 && !plainQuery.test(path.slice(query))) return false;
  return plainPath.test(pathname) && !dotSegment.test(pathname) && !encodedTrouble.test(pathname);
}
