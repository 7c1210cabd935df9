import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

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

export interface ErrorResponse {
  readonly status: number;
  /** Also a Content-Type, where it is another type of JSON than `application/json`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly json: object;
}

/** Responds with an error. Ends the connection where another response has begun already. */
export function sendError(
  response: ServerResponse,
  { status, headers, json }: ErrorResponse,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  // The unread rest of a body would be taken for the next request.
  if (!response.req.complete) response.setHeader('connection', 'close');
  sendJson(response, status, json, headers);
}

/**
 * Responds with an error on a connection that has no `ServerResponse`, and ends the connection.
 * Without `json` the response has no body.
 */
export function refuseConnection(
  socket: Duplex,
  { status, headers, json }: Omit<ErrorResponse, 'json'> & Partial<ErrorResponse>,
): void {
  if (socket.destroyed) return;
  const body = json === undefined ? '' : JSON.stringify(json);
  const head = Object.entries({
    ...(json === undefined ? {} : { 'content-type': 'application/json' }),
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const statusLine = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Refused'}\r\n`;
  // The server's half of the connection ends with the response; the client's half would stay open
  // as long as the client likes.
  socket.end(`${statusLine}${head.join('')}\r\n${body}`, () => socket.destroy());
}
