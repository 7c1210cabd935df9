import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { sleep, type Clock } from '../../kube/clock.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { headFlaw } from './request-head.ts';
import { requestIdOf } from './request-scope.ts';
import { refuseConnection, sendProblem } from './send-problem.ts';

/** Against clients that send slowly on purpose. The second is not for what is proxied: an upload may take longer, and has a limit of its own. */
const headersTimeoutMs = 10_000;
const requestTimeoutMs = 60_000;
/** Of one event of a response, before the runtime warns. */
const maxListeners = 20;
const maxHeaderBytes = 16 * 1024;
/** Longer than the idle time of common load balancers, so that it is they who close a connection that nothing is on. */
const keepAliveTimeoutMs = 75_000;

/** How long a client may read nothing of an answer that waits for it. */
const stallTimeoutMs = 30_000;
/** For the rest of a request that is answered already: a client that still sends would lose its answer if the connection were cut at once. */
const lingerMs = 3000;
/** Requests on one connection that wait for their answers; nobody that is known sends even two ahead. */
const maxPipelined = 64;
/** Between two looks for idle connections to close when there are too many. */
const makeRoomIntervalMs = 1000;

export interface HttpServerOptions {
  /** Connections at once; more are closed as they come. By default without limit. */
  readonly maxConnections?: number;
  /** Called for each that is closed so. */
  readonly onDrop?: () => void;
  readonly stallMs?: number;
  readonly lingerMs?: number;
}

export interface ServerHandlers {
  readonly request: RequestListener;
  /** Whether a request is to become something else than HTTP; if not, it is answered like any other. */
  readonly wantsUpgrade: (request: IncomingMessage) => boolean;
  /** Gets those that do. */
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

interface ConnectionState {
  /** Requests that wait for the end of their answers. */
  underWay: number;
  /** The answer to the newest of them. */
  last: ServerResponse;
  /** Where one request was ambiguous, nobody knows where the next one begins. */
  isOver: boolean;
}

/** An HTTP server that trusts no client: neither to be quick, nor to read its answers, nor to send what has but one meaning. */
export function createHttpServer({ request: listener, wantsUpgrade, upgrade }: ServerHandlers, options: HttpServerOptions = {}): Server {
  const { maxConnections, onDrop } = options;
  const states = new WeakMap<Duplex, ConnectionState>();
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: 0,
      // It is missed below, in our words.
      requireHostHeader: false,
      shouldUpgradeCallback: wantsUpgrade,
      keepAliveTimeout: keepAliveTimeoutMs,
      maxHeaderSize: maxHeaderBytes,
      connectionsCheckingInterval: 5000,
    },
    (request, response) => {
      const { socket } = request;
      // A pipeline into it adds seven for its close to those of limits, logs and the load: no leak.
      response.setMaxListeners(maxListeners);
      const state = states.get(socket) ?? { underWay: 0, last: response, isOver: false };
      states.set(socket, state);
      state.underWay += 1;
      state.last = response;
      response.once('close', () => (state.underWay -= 1));
      if (state.isOver || state.underWay > maxPipelined) {
        socket.destroy();
        return;
      }
      endInTime(request, response, options);
      const flaw = headFlaw(request);
      if (flaw === undefined) {
        listener(request, response);
        return;
      }
      state.isOver = true;
      response.setHeader('connection', 'close');
      sendProblem(response, flaw, requestIdOf(request.headers['x-request-id']));
    },
  );
  // All of them, so that none is overlooked; their number is limited before anything is done with them.
  server.maxHeadersCount = 0;
  server.on('upgrade', (request, socket, head) => {
    const flaw = headFlaw(request);
    if (flaw !== undefined) refuseConnection(socket, flaw, requestIdOf(request.headers['x-request-id']));
    else if (upgrade === undefined) socket.destroy();
    else upgrade(request, socket, head);
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const problem = new ProblemError('expectation-failed', 'The only thing to expect is 100-continue.');
    endInTime(request, response, options);
    sendProblem(response, problem, requestIdOf(request.headers['x-request-id']));
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const state = states.get(socket);
    // What is written now has to be the answer to what could not be read: not to a request before it, nor the end of an answer.
    const isOfBody = state?.underWay === 1 && !state.last.req.complete && !state.last.headersSent;
    const isAnswerable = socket.writable && error.code !== 'ECONNRESET' && (isOfBody || (state?.underWay ?? 0) === 0);
    if (isAnswerable) refuseConnection(socket, unreadable(error.code), randomUUID());
    else socket.destroy();
  });
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  let madeRoomAt = -Infinity;
  server.on('drop', () => {
    onDrop?.();
    if (performance.now() - madeRoomAt < makeRoomIntervalMs) return;
    madeRoomAt = performance.now();
    // Those that are merely kept alive have had their answer.
    server.closeIdleConnections();
  });
  return server;
}

/** What is said about a request that could not even be parsed. */
function unreadable(code: string | undefined): ProblemError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ProblemError('headers-too-large', `The request line and the headers are larger than ${maxHeaderBytes} bytes.`);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ProblemError('body-too-large', 'The extensions of a chunk are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return lateRequest();
    default:
      return new ProblemError('malformed-request', 'The request is not valid HTTP.');
  }
}

const lateRequest = () => new ProblemError('request-timeout', 'The request took too long to arrive.');

/** Limits how long a client may take for its answer, and afterwards for the rest of its request. */
function endInTime(request: IncomingMessage, response: ServerResponse, options: HttpServerOptions): void {
  const { stallMs = stallTimeoutMs, lingerMs: restMs = lingerMs } = options;
  response.once('prefinish', () => {
    // All is written, and some of it waits for the client. Each part that it takes gives it the full time again.
    if ((response.socket?.writableLength ?? 0) > 0) response.setTimeout(stallMs, () => response.destroy());
  });
  response.once('finish', () => {
    if (request.complete) return;
    const timer = setTimeout(() => request.socket.destroy(), restMs);
    request.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer));
    // Nobody reads it any more.
    request.unpipe();
    request.resume();
  });
}

/** Cuts off a client that takes too long to send its request, as the server would do with every one. */
export function limitRequestTime(request: IncomingMessage, response: ServerResponse, clock: Clock): void {
  if (request.headers['content-length'] === undefined && request.headers['transfer-encoding'] === undefined) return;
  const timer = clock.after(requestTimeoutMs, () => {
    if (request.complete) return;
    if (response.headersSent) request.socket.destroy();
    else refuseConnection(request.socket, lateRequest(), requestIdOf(request.headers['x-request-id']));
  });
  request.once('end', () => timer.cancel());
  response.once('close', () => timer.cancel());
}

/** The gateway's address can't be had. The message is one line, for a person at a terminal. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

export function listenOn(server: Server, host: string, port: number): Promise<{ readonly port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => {
      const where = isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
      const why = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message;
      reject(new ListenError(`the gateway can't listen on ${where}: ${why}`, { cause: error }));
    };
    server.once('error', onError);
    server.listen(port, host, () => {
      server.off('error', onError);
      const address = server.address();
      resolve({ port: typeof address === 'object' && address !== null ? address.port : port });
    });
  });
}

/** Takes no new connections, lets requests under way end, and after `graceMs` ends what is left. */
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
      // A connection that was busy when close was called becomes idle later, and would be kept alive.
      server.closeIdleConnections();
      await sleep(clock, 50, closed.signal);
    }
  } catch {
    // Closed before the time was over.
  }
  server.closeAllConnections();
  await end;
}
