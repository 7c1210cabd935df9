import type { IncomingMessage, ServerResponse } from 'node:http';
import { ProblemError } from '../errors/problem-error.ts';

/** How long the server waits for clients, in milliseconds. */
export interface ClientTimeouts {
  /** For the headers of a request, from its first byte on or from the beginning of the connection. */
  readonly headersMs: number;
  /** For a whole request. Not for what is proxied: an upload may take longer, and has a limit of its own. */
  readonly requestMs: number;
  /** On a connection that nothing is on. Longer than common load balancers wait, so that it is they who close it. */
  readonly keepAliveMs: number;
  /** For one who reads nothing of an answer that waits for it. */
  readonly stallMs: number;
  /** For the rest of a request that has its response: a client that still sends would lose the response with the connection. */
  readonly lingerMs: number;
}

export const defaultTimeouts: ClientTimeouts = {
  headersMs: 10_000,
  requestMs: 60_000,
  keepAliveMs: 75_000,
  stallMs: 30_000,
  lingerMs: 3000,
};

export const lateRequest = () => new ProblemError('request-timeout', 'The request took too long to arrive.');

/** Limits how long a client may take for its answer, and afterwards for the rest of its request. */
export function endInTime(request: IncomingMessage, response: ServerResponse, { stallMs, lingerMs }: ClientTimeouts): void {
  response.once('prefinish', () => {
    // All is written, and some of it waits for the client. Each part that it takes gives it the full time again.
    if ((response.socket?.writableLength ?? 0) > 0) response.setTimeout(stallMs, () => response.destroy());
  });
  response.once('finish', () => {
    if (request.complete) return;
    const timer = setTimeout(() => request.socket.destroy(), lingerMs);
    request.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer));
    // The handler has answered and reads no more of the body; the rest is discarded.
    request.unpipe();
    request.resume();
  });
}
