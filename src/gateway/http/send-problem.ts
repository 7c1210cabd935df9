import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { sendJson } from './send-json.ts';
import { problemBody } from '../errors/problem-body.ts';
import type { ProblemError } from '../errors/problem-error.ts';

/** Answers with a problem, as the rest of the service does. */
export function sendProblem(
  response: ServerResponse,
  problem: ProblemError,
  requestId: string,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  response.setHeader('x-request-id', requestId);
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('cache-control', 'no-store');
  // The unread rest of a body would be taken for the next request.
  if (!response.req.complete) response.setHeader('connection', 'close');
  sendJson(response, problem.status, problemBody(problem, requestId), problem.headers);
}

/** Answers a WebSocket handshake with a problem, and ends the connection. */
export function refuseConnection(socket: Duplex, problem: ProblemError, requestId: string): void {
  const body = JSON.stringify(problemBody(problem, requestId));
  const headers = Object.entries({
    ...problem.headers,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
    'x-request-id': requestId,
    connection: 'close',
  });
  endWith(
    socket,
    `${statusLine(problem.status)}${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`,
  );
}

/** Ends a handshake with the status of the agent, without a body. */
export const refuseWithStatus = (socket: Duplex, status: number, requestId: string): void =>
  endWith(
    socket,
    `${statusLine(status)}content-length: 0\r\nx-request-id: ${requestId}\r\nconnection: close\r\n\r\n`,
  );

const statusLine = (status: number): string =>
  `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Refused'}\r\n`;

function endWith(socket: Duplex, text: string): void {
  if (socket.destroyed) return;
  // Its half of the connection ends with the answer; the other half would stay open as long as the
  // client likes.
  socket.end(text, () => socket.destroy());
}
