import type { IncomingMessage } from 'node:http';
import { isSafePath } from '@conversation-operator/http/server/request-head';
import { ProblemError } from '../errors/problem-error.ts';

export const sessionKeyHeader = 'x-session-api-key';
/** Query parameter of WebSocket URLs, because browsers can not set headers of a WebSocket. */
const keyParameter = 'session_api_key';

/** Throws for a request that the gateway and the agent could interpret differently. */
export function refuseUnsafe({ method }: Pick<IncomingMessage, 'method'>, path: string): void {
  // The response to TRACE would show the headers that the agent gets, including its key.
  if (method === 'TRACE')
    throw new ProblemError('method-not-allowed', 'TRACE is not passed on.', {
      headers: { allow: 'GET, HEAD, POST' },
    });
  if (!isSafePath(path))
    throw new ProblemError('malformed-request', 'The path is not written plainly.');
}

export function keysOfRequest({ headers }: Pick<IncomingMessage, 'headers'>): readonly string[] {
  const key = headers[sessionKeyHeader];
  return typeof key === 'string' ? [key] : [];
}

/** All session keys of a handshake. Each of them must open the sandbox. */
export function keysOfHandshake(request: IncomingMessage, path: string): readonly string[] {
  const query = path.indexOf('?');
  const parameters = query < 0 ? [] : new URLSearchParams(path.slice(query)).getAll(keyParameter);
  return [...keysOfRequest(request), ...parameters];
}

/**
 * The path with the agent's key in place of each session key in the query. An agent prefers a key
 * in the query to the header, and must never get a client's key.
 */
export function withAgentKey(path: string, agentKey: string): string {
  const query = path.indexOf('?');
  if (query < 0) return path;
  const parts = path.slice(query + 1).split('&');
  const isKey = (part: string) => new URLSearchParams(part).has(keyParameter);
  if (!parts.some(isKey)) return path;
  return `${path.slice(0, query)}?${parts.map((part) => (isKey(part) ? `${keyParameter}=${agentKey}` : part)).join('&')}`;
}

export function withoutQuery(path: string): string {
  const query = path.indexOf('?');
  return query < 0 ? path : path.slice(0, query);
}
