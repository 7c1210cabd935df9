import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

type Headers = Readonly<Record<string, string>>;

/** Sends JSON, and returns its length in bytes. The Content-Type has no parameter `charset`. */
export const sendJson = (
  response: ServerResponse,
  status: number,
  json: unknown,
  headers?: Headers,
): number => sendJsonText(response, status, JSON.stringify(json), headers);

/** JSON as a text, or as pieces in UTF-8 that are sent without joining them. */
export type JsonText = string | readonly Buffer[];

/** Sends serialized JSON, and returns its length in bytes. */
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
    // ASCII text has the same bytes in latin1, which Node writes faster.
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
  /** May contain a Content-Type that replaces `application/json`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly json: object;
}

/** Responds with an error. Ends the connection if another response has already begun. */
export function sendError(
  response: ServerResponse,
  { status, headers, json }: ErrorResponse,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  // On an open connection, the parser would read the rest of the body as the next request.
  if (!response.req.complete) response.setHeader('connection', 'close');
  sendJson(response, status, json, headers);
}

/** Sends an error on a connection that has no `ServerResponse`, and closes the connection. */
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
  // `end` closes only the server's half. Without `destroy`, the client could keep its half open.
  socket.end(`${statusLine}${head.join('')}\r\n${body}`, () => socket.destroy());
}
