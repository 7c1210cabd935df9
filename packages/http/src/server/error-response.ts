import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { sendJson } from '../body/send-json.ts';

/** A response that says why a request has failed. */
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
