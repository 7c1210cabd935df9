import type { ServerResponse } from 'node:http';

type Headers = Readonly<Record<string, string>>;

/**
 * Sends JSON, and returns its length in bytes. The Content-Type has no charset, because JSON
 * defines none.
 */
export const sendJson = (
  response: ServerResponse,
  status: number,
  json: unknown,
  headers?: Headers,
): number => sendJsonText(response, status, JSON.stringify(json), headers);

/** Sends a text that is JSON already, and returns its length in bytes. */
export const sendJsonText = (
  response: ServerResponse,
  status: number,
  body: string,
  headers: Headers = {},
): number => send(response, status, body, { ...headers, 'content-type': 'application/json' });

/** Sends a plain text, and returns its length in bytes. */
export const sendText = (
  response: ServerResponse,
  status: number,
  body: string,
  headers: Headers = {},
): number =>
  send(response, status, body, { ...headers, 'content-type': 'text/plain; charset=utf-8' });

function send(response: ServerResponse, status: number, body: string, headers: Headers): number {
  const bytes = Buffer.byteLength(body);
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('content-length', bytes);
  // ASCII has the same bytes in latin1, which is faster.
  response.end(body, bytes === body.length ? 'latin1' : 'utf8');
  return bytes;
}
