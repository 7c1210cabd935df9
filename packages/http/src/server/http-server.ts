import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Connections } from '../limits/connections.ts';
import { Refusal } from '../refusal.ts';
import { refuseConnection, sendError, type ErrorResponse } from '../body/send-json.ts';
import { headFlaw } from './request-head.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { hasBody } from '../body/json-body.ts';
import { defaultStallMs } from '../body/send-chunks.ts';

/** Maximum listeners of one event of a response before Node warns. */
const maxListeners = 20;
const maxHeaderBytes = 16 * 1024;
/** Delay before the kernel probes an idle connection. */
const probeDelayMs = 60_000;
/** Maximum pipelined requests of a connection; no known client sends more than one ahead. */
const maxPipelined = 64;

export interface HttpServerOptions {
  /** Limits of concurrent connections; none by default. */
  readonly connections?: Connections;
  /** Lower-case names of headers that may occur only once, besides those of HTTP. Default: none. */
  readonly singleHeaders?: readonly string[];
  readonly timeouts?: Partial<ClientTimeouts>;
}

export interface ServerHandlers {
  readonly request: RequestListener;
  /** Whether `upgrade` handles a request with the header Upgrade. If not, `request` handles it. */
  readonly wantsUpgrade: (request: IncomingMessage) => boolean;
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  /** Returns the response to a refused request. `request` is undefined if parsing failed. */
  readonly refuse: (refusal: Refusal, request: IncomingMessage | undefined) => ErrorResponse;
}

interface ConnectionState {
  /** Number of requests whose responses have not ended. */
  underWay: number;
  /** Response to the newest running request. */
  last: ServerResponse;
  /** Requests that wait for the end of an earlier one. */
  readonly queue: (() => void)[];
  /** Whether a request was ambiguous, so that it is unknown where the next request begins. */
  isOver: boolean;
}

/** Creates an HTTP server that withstands slow clients, unread responses and ambiguous requests. */
export function createHttpServer(
  { request: listener, wantsUpgrade, upgrade, refuse }: ServerHandlers,
  options: HttpServerOptions = {},
): Server {
  const { connections, singleHeaders = [] } = options;
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  const states = new WeakMap<Duplex, ConnectionState>();
  const server = createServer(
    {
      headersTimeout: timeouts.headersMs,
      requestTimeout: 0,
      // `headFlaw` refuses a request without the header Host, and the response states this reason.
      requireHostHeader: false,
      shouldUpgradeCallback: wantsUpgrade,
      keepAliveTimeout: timeouts.keepAliveMs,
      // The kernel ends the connection of a vanished peer, so it no longer counts against a limit.
      keepAlive: true,
      keepAliveInitialDelay: probeDelayMs,
      maxHeaderSize: maxHeaderBytes,
      connectionsCheckingInterval: timeouts.headersMs / 2,
    },
    (request, response) => {
      const { socket } = request;
      // A stream pipeline adds seven listeners to those of this package, which is not a leak.
      response.setMaxListeners(maxListeners);
      const state = states.get(socket) ?? { underWay: 0, last: response, queue: [], isOver: false };
      states.set(socket, state);
      state.underWay += 1;
      state.last = response;
      connections?.begin(socket);
      response.once('close', () => {
        state.underWay -= 1;
        if (state.underWay === 0) connections?.end(socket);
        state.queue.shift()?.();
      });
      if (state.isOver || state.underWay > maxPipelined) {
        socket.destroy();
        return;
      }
      endInTime(request, response, timeouts);
      const flaw = headFlaw(request, singleHeaders);
      state.isOver = flaw !== undefined;
      const begin = () => {
        if (flaw === undefined) {
          listener(request, response);
        } else {
          response.setHeader('connection', 'close');
          sendError(response, refuse(flaw, request));
        }
      };
      // Requests of a connection run one by one, after the client has read the previous response.
      if (state.underWay === 1) begin();
      else state.queue.push(begin);
    },
  );
  // 0 means no limit: Node would ignore headers above a limit, but `headFlaw` refuses the request.
  server.maxHeadersCount = 0;
  server.on('upgrade', (request, socket, head) => {
    connections?.begin(request.socket);
    const flaw = headFlaw(request, singleHeaders);
    if (flaw !== undefined) refuseConnection(socket, refuse(flaw, request));
    else if (upgrade === undefined) socket.destroy();
    else upgrade(request, socket, head);
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const refusal = new Refusal(
      'expectation-failed',
      'The only supported expectation is 100-continue.',
    );
    connections?.begin(request.socket);
    response.once('close', () => connections?.end(request.socket));
    endInTime(request, response, timeouts);
    sendError(response, refuse(refusal, request));
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const state = states.get(socket);
    // Answers only if no earlier request is running and no part of a response has been sent.
    const isOfBody = state?.underWay === 1 && !state.last.req.complete && !state.last.headersSent;
    const isAnswerable =
      socket.writable && error.code !== 'ECONNRESET' && (isOfBody || (state?.underWay ?? 0) === 0);
    if (isAnswerable) refuseConnection(socket, refuse(unreadable(error.code), undefined));
    else socket.destroy();
  });
  server.on('connection', (socket: Socket) => connections?.admit(socket));
  return server;
}

function unreadable(code: string | undefined): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal(
        'headers-too-large',
        `The request line and the headers are larger than ${maxHeaderBytes} bytes.`,
      );
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new Refusal('body-too-large', 'The extensions of a chunk are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return lateRequest();
    default:
      return new Refusal('malformed-request', 'The request is not valid HTTP.');
  }
}

/** Timeouts of the server for clients, in milliseconds. */
export interface ClientTimeouts {
  /** Maximum time for the headers, from their first byte or the start of the connection. */
  readonly headersMs: number;
  /** Maximum time to receive a whole request, unless it is forwarded: an upload may take longer. */
  readonly requestMs: number;
  /** Maximum idle time of a connection. Usual load balancers close their connections earlier. */
  readonly keepAliveMs: number;
  /** Maximum time in which a client reads nothing of its response. */
  readonly stallMs: number;
  /**
   * Maximum time to receive the rest of a request after the response. If the server closed the
   * connection at once, the client could lose the response.
   */
  readonly lingerMs: number;
}

export const defaultTimeouts: ClientTimeouts = {
  headersMs: 10_000,
  requestMs: 60_000,
  keepAliveMs: 75_000,
  stallMs: defaultStallMs,
  lingerMs: 3000,
};

const lateRequest = () => new Refusal('request-timeout', 'The request took too long to arrive.');

interface ArrivalOptions extends Pick<ClientTimeouts, 'requestMs'> {
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

/** Closes the connection if the client does not read the response, or end the request, in time. */
function endInTime(
  request: IncomingMessage,
  response: ServerResponse,
  { stallMs, lingerMs }: ClientTimeouts,
): void {
  response.once('prefinish', () => {
    // The client has not read all of the response. Each part that it reads restarts the timeout.
    if ((response.socket?.writableLength ?? 0) > 0)
      response.setTimeout(stallMs, () => response.destroy());
  });
  response.once('finish', () => {
    if (request.complete) return;
    const timer = setTimeout(() => request.socket.destroy(), lingerMs).unref();
    request.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer));
    // The handler has responded and reads no more of the body; the rest is discarded.
    request.unpipe();
    request.resume();
  });
}
