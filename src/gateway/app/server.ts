import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { isIPv6 } from 'node:net';
import { sleep, type Clock } from '../../kube/clock.ts';

/** Against clients that send slowly on purpose. The second is not for what is proxied: an upload may take longer, and has a limit of its own. */
const headersTimeoutMs = 10_000;
const requestTimeoutMs = 60_000;
const maxHeaderBytes = 16 * 1024;
/** Longer than the idle time of common load balancers, so that it is they who close a connection that nothing is on. */
const keepAliveTimeoutMs = 75_000;

/** How long a client may read nothing of an answer that waits for it. */
const stallTimeoutMs = 30_000;
/** Between two looks for idle connections to close when there are too many. */
const makeRoomIntervalMs = 1000;

export interface HttpServerOptions {
  /** Connections at once; more are closed as they come. By default without limit. */
  readonly maxConnections?: number;
  /** Called for each that is closed so. */
  readonly onDrop?: () => void;
  readonly stallMs?: number;
}

export interface ServerHandlers {
  readonly request: RequestListener;
  /** Whether a request is to become something else than HTTP; if not, it is answered like any other. */
  readonly wantsUpgrade: (request: IncomingMessage) => boolean;
}

export function createHttpServer({ request: listener, wantsUpgrade }: ServerHandlers, options: HttpServerOptions = {}): Server {
  const { maxConnections, onDrop, stallMs = stallTimeoutMs } = options;
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: 0,
      shouldUpgradeCallback: wantsUpgrade,
      keepAliveTimeout: keepAliveTimeoutMs,
      maxHeaderSize: maxHeaderBytes,
      connectionsCheckingInterval: 5000,
    },
    (request, response) => {
      response.once('prefinish', () => {
        // All is written, and some of it waits for the client. Each part that it takes gives it the full time again.
        if ((response.socket?.writableLength ?? 0) > 0) response.setTimeout(stallMs, () => response.destroy());
      });
      listener(request, response);
    },
  );
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

/** Cuts off a client that takes too long to send its request, as the server would do with every one. */
export function limitRequestTime(request: IncomingMessage, response: ServerResponse, clock: Clock): void {
  if (request.headers['content-length'] === undefined && request.headers['transfer-encoding'] === undefined) return;
  const timer = clock.after(requestTimeoutMs, () => {
    if (request.complete) return;
    if (!response.headersSent) request.socket.write('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n');
    request.socket.destroy();
  });
  request.once('end', () => timer.cancel());
  response.once('close', () => timer.cancel());
}

/**
 * Connections that the system keeps until they are looked at. Where there are more, it forgets them without a word, and whoever asks
 * again does so after 1 s, 3 s, 7 s: under load /alive would count as failed. As many as Linux allows by default.
 */
const maxWaitingConnections = 4096;

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
    server.listen({ port, host, backlog: maxWaitingConnections }, () => {
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
