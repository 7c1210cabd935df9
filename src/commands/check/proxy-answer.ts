/** Answer to a request that went through a proxy for http. */
export interface ProxiedAnswer {
  readonly status: number;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** Sender of an answer: a proxy for http passes the answers of hosts on, and gives others itself. */
export type Sender = 'host' | 'proxy' | 'unknown';

/**
 * Headers of answers that a proxy gives by itself: those of Squid, of RFC 9209 (an error that keeps
 * the proxy from the answer of the host) and of RFC 9110 (credentials for the proxy).
 */
const isMarked = ({ headers }: ProxiedAnswer): boolean =>
  headers['x-squid-error'] !== undefined ||
  headers['proxy-authenticate'] !== undefined ||
  /;\s*error\s*=/i.test([headers['proxy-status'] ?? []].flat().join());

/** Statuses of proxies that forbid a host (403), or do not reach the host (5xx). */
const mayBeOfProxy = ({ status }: ProxiedAnswer): boolean => status === 403 || status >= 500;

/**
 * The sender of an answer. A proxy adds `Via` to an answer that it passes on (RFC 9110, 7.6.3);
 * many proxies do not, so that the absence of the header proves nothing.
 */
export function senderOf(answer: ProxiedAnswer): Sender {
  if (answer.status >= 400 && isMarked(answer)) return 'proxy';
  if (!mayBeOfProxy(answer) || answer.headers['via'] !== undefined) return 'host';
  return 'unknown';
}
