import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '@conversation-operator/base/clock';
import { hasBody } from '../body/json-body.ts';
import { defaultStallMs } from '../body/send-chunks.ts';
import { Refusal } from '../refusal.ts';

/** Timeouts of the server for clients, in milliseconds. */
export interface ClientTimeouts {
  /** Maximum time for the headers, from their first byte or the start of the connection. */
  readonly headersMs: number;
  /** Maximum time for a whole request; proxied ones have another, for long uploads. */
  readonly requestMs: number;
  /** Maximum time of an idle connection, longer than usual load balancers', which close first. */
  readonly keepAliveMs: number;
  /** Maximum time in which a client reads nothing of its answer. */
  readonly stallMs: number;
  /** Maximum time for the rest of an answered request: an earlier close would lose the response. */
  readonly lingerMs: number;
}

export const defaultTimeouts: ClientTimeouts = {
  headersMs: 10_000,
  requestMs: 60_000,
  keepAliveMs: 75_000,
  stallMs: defaultStallMs,
  lingerMs: 3000,
};

export const lateRequest = () =>
  new Refusal('request-timeout', 'The request took too long to arrive.');

export interface ArrivalOptions extends Pick<ClientTimeouts, 'requestMs'> {
  readonly clock: Pick<Clock, 'after'>;
  /** Responds to a request that is late, and ends its connection. */
  readonly refuse: (refusal: Refusal) => void;
}

/** Closes the connection of a client that takes too long to send its request. */
export function arriveInTime(
  request: IncomingMessage,
  response: ServerResponse,
  { clock, requestMs, refuse }: ArrivalOptions,
): void {
  if (!hasBody(request)) return;
  const timer = clock.after(requestMs, () => {
    if (request.complete) return;
    if (response.headersSent) request.socket.destroy();
    else refuse(lateRequest());
  });
  request.once('end', () => timer.cancel());
  response.once('close', () => timer.cancel());
}

/** Limits how long a client may take for its answer, and afterwards for the rest of its request. */
export function endInTime(
  request: IncomingMessage,
  response: ServerResponse,
  { stallMs, lingerMs }: ClientTimeouts,
): void {
  response.once('prefinish', () => {
    // The response is written, but the client has not read all of it. Each part that it reads
    // restarts the timeout.
    if ((response.socket?.writableLength ?? 0) > 0)
      response.setTimeout(stallMs, () => response.destroy());
  });
  response.once('finish', () => {
    if (request.complete) return;
    const timer = setTimeout(() => request.socket.destroy(), lingerMs).unref();
    request.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer));
    // The handler has answered and reads no more of the body; the rest is discarded.
    request.unpipe();
    request.resume();
  });
}
