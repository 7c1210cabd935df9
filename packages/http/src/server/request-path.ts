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
 * A slash, after nothing or dots another one, both of either spelling: a URL of this form without
 * an origin before it names a host, and a redirect to it leaves the server.
 */
const hostStart = /^\/(?:\.|%2e){0,2}(?:[/\\]|%2f|%5c)/i;

/** Whether a path could be taken for `//` and a host, where a URL is built from it. */
export const namesHost = (path: string): boolean => hostStart.test(path);

/**
 * Whether every server and proxy on the way reads the path in the same way. Encoded slashes are
 * allowed behind the first segment: the proxy forwards them as they are.
 */
export function isSafePath(path: string): boolean {
  const query = path.indexOf('?');
  const pathname = query < 0 ? path : path.slice(0, query);
  if (query >= 0 && !plainQuery.test(path.slice(query))) return false;
  return (
    plainPath.test(pathname) &&
    !namesHost(pathname) &&
    !dotSegment.test(pathname) &&
    !encodedTrouble.test(pathname)
  );
}
