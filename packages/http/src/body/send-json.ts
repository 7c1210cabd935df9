import type { ServerResponse } from 'node:http';

type Headers = Readonly<Record<string, string>>;

/**
 * Sends JSON, and returns its length in bytes. The Content-Type has no charset, because JSON
 * defines none; headers may name another type of JSON.
 */
export const sendJson = (
  response: ServerResponse,
  status: number,
  json: unknown,
  headers?: Headers,
): number => sendJsonText(response, status, JSON.stringify(json), headers);

/** JSON as a text, or as pieces in UTF-8, which are not joined. */
export type JsonText = string | readonly Buffer[];

/** Sends what is JSON already, and returns its length in bytes. */
export const sendJsonText = (
  response: ServerResponse,
  status: number,
  body: JsonText,
  headers: Headers = {},
): number => send(response, status, body, { 'content-type': 'application/json', ...headers });

/** Sends a plain text, and returns its length in bytes. */
export const sendText = (
  response: ServerResponse,
  status: number,
  body: string,
  headers: Headers = {},
): number =>
  send(response, status, body, { ...headers, 'content-type': 'text/plain; charset=utf-8' });

function send(response: ServerResponse, status: number, body: JsonText, headers: Headers): number {
  const bytes =
    typeof body === 'string'
      ? Buffer.byteLength(body)
      : body.reduce((sum, { length }) => sum + length, 0);
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('content-length', bytes);
  if (typeof body === 'string') {
    // ASCII has the same bytes in latin1, which is faster.
    response.end(body, bytes === body.length ? 'latin1' : 'utf8');
  } else {
    response.cork();
    for (const piece of body) response.write(piece);
    response.end();
  }
  return bytes;
}
