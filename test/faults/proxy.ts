import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { Connection } from '@conversation-operator/kube/transport';

export interface ProxiedRequest {
  readonly method: string;
  readonly path: string;
  readonly isWatch: boolean;
}

/** The treatment of one request. Each but `pass` is a fault. */
export type Treatment =
  | { readonly kind: 'pass' }
  /** The server never sees it. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body: string;
    }
  /** Accepted, and then nothing, before the server (false) or after it has executed it (true). */
  | { readonly kind: 'swallow'; readonly executed: boolean }
  /** The server executes it; the connection is reset instead of an answer. */
  | { readonly kind: 'lose' }
  | { readonly kind: 'delay'; readonly delayMs: number }
  /** The body comes in pieces of `bytes` bytes, one a turn. */
  | { readonly kind: 'trickle'; readonly bytes: number }
  /** The body is truncated: by a reset, in good order as far as HTTP can see, or inside a chunk. */
  | { kind: 'truncate'; readonly afterBytes: number; readonly how: 'reset' | 'end' | 'half-chunk' };

export type WatchEnd = 'properly' | 'half-json' | 'half-chunk' | { readonly event: string };

interface OpenWatch {
  readonly response: ServerResponse;
  readonly upstream: IncomingMessage;
  /** When it fell silent. */
  silentSince?: number;
}

const pass: Treatment = { kind: 'pass' };
/** Delay within which the proxy notices the end of a connection. */
const closeNoticeMs = 250;

/**
 * Plain HTTP in front of an API server, with faults on request. A client connection and what goes
 * on over it are seen here exactly; connections to the server are pooled and of no interest.
 */
export class FaultProxy {
  readonly #upstream: Connection;
  readonly #agent: http.Agent;
  readonly #server: http.Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<OpenWatch>();
  #port = 0;
  #treat: (request: ProxiedRequest) => Treatment = () => pass;
  /** Counts changes of what is done to requests. */
  #treatments = 0;
  /** The most connections that were open at once. */
  peakSockets = 0;
  /** How long each watch that was silenced stayed open before the client gave it up. */
  readonly silences: number[] = [];

  private constructor(upstream: Connection) {
    this.#upstream = upstream;
    const { ca, cert, key, serverName, insecure } = upstream;
    this.#agent = upstream.server.startsWith('https:')
      ? new https.Agent({
          keepAlive: true,
          ca,
          cert,
          key,
          servername: serverName,
          rejectUnauthorized: insecure !== true,
        })
      : new http.Agent({ keepAlive: true });
    this.#server = http.createServer(
      { keepAliveTimeout: 0, noDelay: true },
      (request, response) => {
        this.#handle(request, response).catch(() => response.destroy());
      },
    );
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.#sockets.delete(socket));
      // Counted later: the proxy has noticed by then that the client closed others before it opened
      // this one, on a busy machine too. Connections that the client leaks stay open.
      const count = () => {
        const open = [...this.#sockets].filter(({ destroyed }) => !destroyed);
        this.peakSockets = Math.max(this.peakSockets, open.length);
      };
      setTimeout(count, closeNoticeMs).unref();
    });
  }

  static async start(upstream: Connection): Promise<FaultProxy> {
    const proxy = new FaultProxy(upstream);
    await proxy.listen();
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get hasSilentWatches(): boolean {
    return [...this.#watches].some(({ silentSince }) => silentSince !== undefined);
  }

  /** From now on, for every request; without a function everything passes. */
  treat(treatment?: (request: ProxiedRequest) => Treatment): void {
    this.#treatments++;
    this.#treat = treatment ?? (() => pass);
  }

  /** Refuses connections until `listen`, and resets those there are. */
  async refuse(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.reset();
    await closed;
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Resets a share of all connections, in the midst of whatever they carry. */
  reset(share: () => boolean = () => true): void {
    for (const socket of this.#sockets) if (share()) socket.resetAndDestroy();
  }

  /** Open watches stay open and say nothing any more, for good. */
  silenceWatches(): void {
    for (const watch of this.#watches) {
      watch.silentSince ??= performance.now();
      watch.upstream.unpipe(watch.response);
      watch.upstream.resume();
    }
  }

  /**
   * Open watches say nothing until the function returned is called; then everything comes at once.
   */
  holdWatches(): () => void {
    const held = [...this.#watches];
    for (const { upstream, response } of held) {
      upstream.unpipe(response);
      upstream.pause();
    }
    return () => {
      for (const { upstream, response } of held) upstream.pipe(response);
    };
  }

  endWatches(how: WatchEnd): void {
    for (const { upstream, response } of this.#watches) {
      upstream.unpipe(response);
      upstream.destroy();
      if (how === 'half-chunk') halfChunk(response);
      else
        response.end(
          how === 'properly'
            ? ''
            : how === 'half-json'
              ? '{"type":"MODIFIED","object":{"apiVer'
              : `${how.event}\n`,
        );
    }
  }

  async close(): Promise<void> {
    this.#agent.destroy();
    if (this.#server.listening) await this.refuse();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    const { method = 'GET', url: path = '/' } = request;
    const isWatch = path.includes('watch=true');
    const treatment = this.#treat({ method, path, isWatch });
    if (treatment.kind === 'answer') {
      request.resume();
      const { status, headers = {}, body } = treatment;
      response
        .writeHead(status, { 'content-length': Buffer.byteLength(body), ...headers })
        .end(body);
      return;
    }
    if (treatment.kind === 'swallow' && !treatment.executed) {
      request.resume();
      return;
    }
    if (treatment.kind === 'delay') {
      await wait(treatment.delayMs);
      if (response.destroyed) return;
    }
    const answer = await this.#forward(request, response);
    // The server is gone: the client sees what it would see without a proxy.
    answer.on('error', () => response.socket?.resetAndDestroy());
    await this.#reply(treatment, answer, response, isWatch);
  }

  /** Gives up when the client does. */
  async #forward(request: IncomingMessage, response: ServerResponse): Promise<IncomingMessage> {
    const { token, server } = this.#upstream;
    const authorization = typeof token === 'function' ? await token() : token;
    const outgoing = (server.startsWith('https:') ? https : http).request(
      new URL(request.url ?? '/', server),
      {
        method: request.method,
        agent: this.#agent,
        headers: {
          ...request.headers,
          host: new URL(server).host,
          ...(authorization === undefined ? {} : { authorization: `Bearer ${authorization}` }),
        },
      },
    );
    response.once('close', () => {
      if (!response.writableEnded) outgoing.destroy();
    });
    request.pipe(outgoing);
    return new Promise((resolve, reject) => {
      outgoing.once('response', resolve);
      outgoing.on('error', (error) => {
        response.socket?.resetAndDestroy();
        reject(error);
      });
    });
  }

  async #reply(
    treatment: Exclude<Treatment, { kind: 'answer' }>,
    answer: IncomingMessage,
    response: ServerResponse,
    isWatch: boolean,
  ): Promise<void> {
    if (treatment.kind === 'lose') {
      answer.resume();
      response.socket?.resetAndDestroy();
      return;
    }
    if (treatment.kind === 'swallow') {
      answer.resume();
      return;
    }
    const headers = { ...answer.headers };
    if (treatment.kind === 'truncate') delete headers['content-length'];
    response.writeHead(answer.statusCode ?? 502, headers);
    response.flushHeaders();
    switch (treatment.kind) {
      case 'truncate':
        await truncate(answer, response, treatment);
        return;
      case 'trickle':
        await this.#trickle(answer, response, treatment.bytes);
        return;
      case 'pass':
      case 'delay':
        if (isWatch) this.#keep({ response, upstream: answer });
        answer.pipe(response);
    }
  }

  /** Lasts until the fault is over; a watch that continues then is an ordinary one. */
  async #trickle(answer: IncomingMessage, response: ServerResponse, bytes: number): Promise<void> {
    const treatment = this.#treatments;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      const step = () => (treatment === this.#treatments ? bytes : chunk.byteLength);
      for (
        let start = 0, size = step();
        start < chunk.byteLength && !response.destroyed;
        start += size, size = step()
      ) {
        response.write(chunk.subarray(start, start + size));
        await wait(0);
      }
      if (response.destroyed) return;
    }
    response.end();
  }

  #keep(watch: OpenWatch): void {
    this.#watches.add(watch);
    watch.response.once('close', () => {
      this.#watches.delete(watch);
      if (watch.silentSince !== undefined)
        this.silences.push(performance.now() - watch.silentSince);
    });
  }
}

/** The head of a chunk that is larger than what follows before the connection breaks. */
function halfChunk(response: ServerResponse): void {
  const { socket } = response;
  socket?.write('400\r\n{"type":"MODIFIED","object":{"api', () => socket.resetAndDestroy());
}

async function truncate(
  answer: IncomingMessage,
  response: ServerResponse,
  { afterBytes, how }: Extract<Treatment, { kind: 'truncate' }>,
): Promise<void> {
  let left = afterBytes;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    response.write(chunk.subarray(0, left));
    left -= chunk.byteLength;
    if (left <= 0) break;
  }
  answer.destroy();
  if (how === 'end') response.end();
  else if (how === 'half-chunk') halfChunk(response);
  else response.socket?.resetAndDestroy();
}
