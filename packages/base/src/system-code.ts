/** The code of a system or undici error; of an AggregateError, the code of the first. */
export const systemCodeOf = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;

/** Codes of a connection attempt that failed: no byte of a request was sent. */
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

/** Whether no connection was established, so that nothing was sent. */
export const isNotConnected = (error: unknown): boolean =>
  notConnected.has(systemCodeOf(error) ?? '');

/** Whether a connection closed before the response, as servers close idle ones during requests. */
export const isClosedConnection = (error: unknown): boolean =>
  closed.has(systemCodeOf(error) ?? '');
