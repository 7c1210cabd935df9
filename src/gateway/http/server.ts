import { randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { isIPv6, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { sleep, type Clock } from '@conversation-operator/kube/clock';
import { ProblemError } from '../errors/problem-error.ts';
import { defaultTimeouts, endInTime, lateRequest, type ClientTimeouts } from './client-timeouts.ts';
import { headFlaw } from './request-head.ts';
import { requestIdOf } from './request-id.ts';
import { refuseConnection, sendProblem } from './send-problem.ts';

/** Maximum listeners of one event of a response before the runtime warns. */
const maxListeners = 20;
const maxHeaderBytes = 16 * 1024;
/**
 * Maximum requests on one connection that wait for their responses; no known client sends even two
 * ahead.
 */
const maxPipelined = 64;
/** Delay between two searches for idle connections to close when there are too many. */
const makeRoomIntervalMs = 1000;

export interface HttpServerOptions {
  /** Maximum concurrent connections; further ones are closed at once. By default without limit. */
  readonly maxConnections?: number;
  /** Called for each connection that is closed because of `maxConnections`. */
  readonly onDrop?: () => void;
  /** Called for every connection that comes. */
  readonly onConnection?: (socket: Socket) => void;
  /** Values that differ from the defaults. */
  readonly timeouts?: Partial<ClientTimeouts>;
}

export interface ServerHandlers {
  readonly request: RequestListener;
  /**
   * Whether a request changes the protocol of its connection; other requests are answered over
   * HTTP.
   */
  readonly wantsUpgrade: (request: IncomingMessage) => boolean;
  /** Called with the requests that `wantsUpgrade` accepts. */
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

interface ConnectionState {
  /** Number of requests whose answers have not ended. */
  underWay: number;
  /** The answer to the newest request under way. */
  last: ServerResponse;
  /** The requests that wait for the end of an earlier one. */
  readonly queue: (() => void)[];
  /** Whether a request was ambiguous, so that the beginning of the next one is unknown. */
  isOver: boolean;
}

/**
 * An HTTP server that trusts no client: clients may be slow, leave answers unread, and send
 * ambiguous requests.
 */
export function createHttpServer(
  { request: listener, wantsUpgrade, upgrade }: ServerHandlers,
  options: HttpServerOptions = {},
): Server {
  const { maxConnections, onDrop, onConnection } = options;
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  const states = new WeakMap<Duplex, ConnectionState>();
  const server = createServer(
    {
      headersTimeout: timeouts.headersMs,
      requestTimeout: 0,
      // `headFlaw` misses the header, with a problem as the body.
      requireHostHeader: false,
      shouldUpgradeCallback: wantsUpgrade,
      keepAliveTimeout: timeouts.keepAliveMs,
      maxHeaderSize: maxHeaderBytes,
      connectionsCheckingInterval: timeouts.headersMs / 2,
    },
    (request, response) => {
      const { socket } = request;
      // A pipeline into it adds seven for its close to those of limits, logs and the load: no leak.
      response.setMaxListeners(maxListeners);
      const state = states.get(socket) ?? { underWay: 0, last: response, queue: [], isOver: false };
      states.set(socket, state);
      state.underWay += 1;
      state.last = response;
      response.once('close', () => {
        state.underWay -= 1;
        state.queue.shift()?.();
      });
      if (state.isOver || state.underWay > maxPipelined) {
        socket.destroy();
        return;
      }
      endInTime(request, response, timeouts);
      const flaw = headFlaw(request);
      state.isOver = flaw !== undefined;
      const begin = () => {
        if (flaw === undefined) {
          listener(request, response);
        } else {
          response.setHeader('connection', 'close');
          sendProblem(response, flaw, requestIdOf(request));
        }
      };
      // Requests of one connection run one after the other, and the next one only after the client
      // has read the answer.
      if (state.underWay === 1) begin();
      else state.queue.push(begin);
    },
  );
  // All of them, so that none is overlooked; their number is limited before anything is done with
  // them.
  server.maxHeadersCount = 0;
  server.on('upgrade', (request, socket, head) => {
    const flaw = headFlaw(request);
    if (flaw !== undefined) refuseConnection(socket, flaw, requestIdOf(request));
    else if (upgrade === undefined) socket.destroy();
    else upgrade(request, socket, head);
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const problem = new ProblemError(
      'expectation-failed',
      'The only supported expectation is 100-continue.',
    );
    endInTime(request, response, timeouts);
    sendProblem(response, problem, requestIdOf(request));
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const state = states.get(socket);
    // A response written now has to be that of the unreadable request: not of a request before it,
    // nor the end of a response.
    const isOfBody = state?.underWay === 1 && !state.last.req.complete && !state.last.headersSent;
    const isAnswerable =
      socket.writable && error.code !== 'ECONNRESET' && (isOfBody || (state?.underWay ?? 0) === 0);
    if (isAnswerable) refuseConnection(socket, unreadable(error.code), randomUUID());
    else socket.destroy();
  });
  if (onConnection !== undefined) server.on('connection', onConnection);
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  let madeRoomAt = -Infinity;
  server.on('drop', () => {
    onDrop?.();
    if (performance.now() - madeRoomAt < makeRoomIntervalMs) return;
    madeRoomAt = performance.now();
    // Idle connections have had their response.
    server.closeIdleConnections();
  });
  return server;
}

/** The problem of a request that could not even be parsed. */
function unreadable(code: string | undefined): ProblemError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ProblemError(
        'headers-too-large',
        `The request line and the headers are larger than ${maxHeaderBytes} bytes.`,
      );
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ProblemError('body-too-large', 'The extensions of a chunk are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return lateRequest();
    default:
      return new ProblemError('malformed-request', 'The request is not valid HTTP.');
  }
}

/**
 * Connections that the system keeps until they are accepted. The system drops any more silently,
 * and a client that connects again does so after 1 s, 3 s, 7 s: under load /alive would count as
 * failed. As many as Linux allows by default.
 */
const maxWaitingConnections = 4096;

/** The gateway can't listen on its address. The message is one line, for a person at a terminal. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

export function listenOn(
  server: Server,
  host: string,
  port: number,
): Promise<{ readonly port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => {
      const where = isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
      const why = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message;
      reject(new ListenError(`the gateway can't listen on ${where}: ${why}`, { cause: error }));
    };
    server.once('error', onError);
    server.listen({ port, host, backlog: maxWaitingConnections }, () => {
      server.off('error', onError);
      const address = server.address();
      resolve({ port: typeof address === 'object' && address !== null ? address.port : port });
    });
  });
}

/**
 * Accepts no new connections, waits for the requests under way, and closes the remaining
 * connections after `graceMs`.
 */
export async function closeServer(server: Server, clock: Clock, graceMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = new AbortController();
  const end = new Promise<void>((resolve) => {
    server.close(() => {
      closed.abort();
      resolve();
    });
  });
  const deadline = clock.monotonic() + graceMs;
  try {
    while (clock.monotonic() < deadline) {
      // A connection that was busy when close was called becomes idle later, and would be kept
      // alive.
      server.closeIdleConnections();
      await sleep(clock, 50, closed.signal);
    }
  } catch {
    // The server has closed before the timeout.
  }
  server.closeAllConnections();
  await end;
}
