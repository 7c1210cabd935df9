/** Returns the code of an error of Node or undici. An AggregateError has its first error's code. */
export const systemCodeOf = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;

/** Codes of failed connection attempts. No byte of the request was sent. */
const notConnected: ReadonlySet<string> = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
const closed: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** Whether no connection was established, so that no byte of the request was sent. */
export const isNotConnected = (error: unknown): boolean =>
  notConnected.has(systemCodeOf(error) ?? '');

/** Whether the connection closed before the response, as when the server closes it as idle. */
export const isClosedConnection = (error: unknown): boolean =>
  closed.has(systemCodeOf(error) ?? '');
