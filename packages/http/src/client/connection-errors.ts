import { systemCodeOf } from '@conversation-operator/base/system-code';

/** Errors of a connection attempt: no byte of the request was sent. */
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

/**
 * Whether an open connection was closed before the response, as happens when a server closes an
 * idle connection at the moment of the request.
 */
export const isClosedConnection = (error: unknown): boolean =>
  closed.has(systemCodeOf(error) ?? '');
