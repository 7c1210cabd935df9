import { createHash, timingSafeEqual } from 'node:crypto';
import { once, type EventEmitter } from 'node:events';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Socket } from 'node:net';
import type { Logger } from '@conversation-operator/base/logger';
import type { PodLogs } from '../api/pod-logs.ts';
import { type PlaneResponse, errorResponse } from '../api/request.ts';
import { internalError, StatusError, tooLarge, unauthorized } from '../api/status-error.ts';
import type { ControlPlane } from '../control-plane.ts';
import { createCertificate, type Certificate } from './credentials.ts';
import { jsonOfProtobuf, protobufType } from './protobuf.ts';

/**
 * Sends a stream chunk by chunk, as fast as the client reads. If the client reads nothing for
 * `stalledMs`, the server closes the connection instead of buffering the unread data.
 */
async function sendStream(
  response: ServerResponse,
  stream: AsyncIterable<string | Uint8Array>,
  { signal, stalledMs }: { readonly signal: AbortSignal; readonly stalledMs: number },
): Promise<void> {
  const iterator = stream[Symbol.asyncIterator]();
  const stop = () => void iterator.return?.().catch(() => undefined);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  response.flushHeaders();
  try {
    for (
      let next = await iterator.next();
      next.done !== true && !response.destroyed;
      next = await iterator.next()
    ) {
      if (!response.write(next.value))
        await once(response, 'drain', {
          signal: AbortSignal.any([signal, AbortSignal.timeout(stalledMs)]),
        });
    }
    response.end();
  } catch (error) {
    // The headers were sent already, so the response can't report the error.
    response.destroy();
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/** @throws StatusError 413 when the body exceeds `maxBytes`; the rest then remains unread */
async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes)
    throw tooLarge(`limit is ${maxBytes}`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge(`limit is ${maxBytes}`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export interface ApiServerOptions {
  readonly plane: ControlPlane;
  readonly host: '127.0.0.1';
  readonly port: number;
  /** Bearer token that clients have to send. */
  readonly token: string;
  readonly logger: Logger;
  readonly podLogs?: PodLogs;
  /** Certificate to keep after a restart, so that kubeconfigs stay valid. Default: a new one. */
  readonly certificate?: Certificate;
  /** A watch or log is closed when its client has read nothing for this time; default 30 s. */
  readonly stalledMs?: number;
}

export interface ApiServer {
  /** URL for plain HTTP, which this process and its children use. */
  readonly url: string;
  /** URL of the same port with TLS, which kubectl requires to send its token. */
  readonly secureUrl: string;
  /** Certificate of `secureUrl` in PEM. */
  readonly ca: string;
  /** Ends watches, waits for pending requests, and frees the port. Does not close `plane`. */
  close(): Promise<void>;
}

const maxBodyBytes = 3 * 1024 * 1024;
const requestTimeoutMs = 60_000;
const limits = { keepAliveTimeout: 75_000, requestTimeout: requestTimeoutMs, noDelay: true };
/** Maximum wait for pending requests when the server closes. */
const graceMs = 2000;
const openPaths: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/livez']);

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { plane, logger, host, port, podLogs, stalledMs = 30_000 } = options;
  plane.setPodLogs(podLogs);
  const expected = digest(`Bearer ${options.token}`);
  const closing = new AbortController();

  async function respond(request: IncomingMessage, signal: AbortSignal): Promise<PlaneResponse> {
    const url = request.url ?? '/';
    const mark = url.indexOf('?');
    const path = mark === -1 ? url : url.slice(0, mark);
    if (
      !openPaths.has(path) &&
      !timingSafeEqual(digest(request.headers.authorization ?? ''), expected)
    )
      throw unauthorized();
    const { method = 'GET' } = request;
    const bytes =
      method === 'GET' || method === 'HEAD'
        ? Buffer.alloc(0)
        : await readBody(request, maxBodyBytes);
    const { accept, 'content-type': contentType, 'user-agent': userAgent } = request.headers;
    const binary = bytes.length > 0 && contentType?.startsWith(protobufType) === true;
    const body = binary ? jsonOfProtobuf(bytes) : bytes.toString('utf8');
    return plane.handle({
      method,
      path,
      query: new URLSearchParams(mark === -1 ? '' : url.slice(mark + 1)),
      headers: {
        accept,
        'content-type': binary ? 'application/json' : contentType,
        'user-agent': userAgent,
      },
      signal,
      ...(body === '' ? {} : { body }),
    });
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    const { status, headers, body } = await respond(request, signal).catch((error: unknown) => {
      if (!(error instanceof StatusError) && !gone.signal.aborted)
        logger.error('A request could not be answered', { path: request.url, error });
      return errorResponse(error instanceof StatusError ? error : internalError(error));
    });
    if (gone.signal.aborted) {
      if (typeof body !== 'string') await body[Symbol.asyncIterator]().return?.();
      return;
    }
    // Closes the connection: the parser would read the rest of a rejected body as the next request.
    if (status === 413 || closing.signal.aborted) response.setHeader('connection', 'close');
    if (typeof body === 'string') {
      response
        .writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
        .end(body);
      return;
    }
    response.writeHead(status, headers);
    await sendStream(response, body, { signal, stalledMs });
    // The headers were sent before the shutdown and keep the connection open, so it is closed here.
    if (closing.signal.aborted) request.socket.end();
  }

  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    serve(request, response).catch((error: unknown) => {
      logger.warn('A response was aborted', { path: request.url, error });
      response.destroy();
    });
  };
  const certificate = options.certificate ?? createCertificate({ nowMs: Date.now() });
  const plain = createHttpServer(limits, listener);
  const secure = createHttpsServer(
    { ...limits, ...certificate, ALPNProtocols: ['http/1.1'] },
    listener,
  );
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    handOver(socket, plain, secure);
  });
  // Both servers get their connections from `handOver`. 'listening' starts their timers.
  plain.emit('listening');
  secure.emit('listening');
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  const actualPort = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host}:${actualPort}`,
    secureUrl: `https://${host}:${actualPort}`,
    ca: certificate.cert,
    close: async () => {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      closing.abort();
      plain.close();
      secure.close();
      const deadline = setTimeout(() => sockets.forEach((socket) => socket.destroy()), graceMs);
      await closed;
      clearTimeout(deadline);
      plane.setPodLogs(undefined);
    },
  };
}

/** First byte of a TLS handshake, with which no HTTP request begins. */
const handshake = 0x16;

function handOver(socket: Socket, plain: EventEmitter, secure: EventEmitter): void {
  socket.on('error', () => socket.destroy());
  socket.setTimeout(requestTimeoutMs, () => socket.destroy());
  socket.once('data', (first) => {
    socket.pause();
    socket.setTimeout(0);
    socket.removeAllListeners('timeout');
    socket.unshift(first);
    (first[0] === handshake ? secure : plain).emit('connection', socket);
    // The event attaches the parser in this turn of the event loop. Data may follow in the next.
    process.nextTick(() => socket.resume());
  });
}
