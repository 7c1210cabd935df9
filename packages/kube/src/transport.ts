import { Pool, type Dispatcher } from 'undici';
import type { Logger } from './logger.ts';
import type { KubeMetrics } from './metrics.ts';
import { backoffDelayMs, type BackoffOptions } from './backoff.ts';
import { sleep, type Clock } from './clock.ts';
import { AnswerTooLargeError, ApiError, DeadlineError, TransportError, type StatusBody } from './errors.ts';
import { exchange, type Answer } from './exchange.ts';

export interface Connection {
  /** `https://host:port`, or `http://` for an API server on loopback. A path in front of `/api` is kept. */
  readonly server: string;
  /** A function is asked before every request, so that a token that is replaced on disk is picked up. */
  readonly token?: string | (() => Promise<string>);
  /** PEM. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name in the server's certificate, where that is not the host's. */
  readonly serverName?: string;
  readonly insecure?: boolean;
}

export interface TransportRequest {
  /** For metrics. */
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  /** The plural, for metrics. */
  readonly resource: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With its query. */
  readonly path: string;
  readonly body?: unknown;
  /** application/json by default. */
  readonly contentType?: string;
  /** The form of the answer; application/json by default. */
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly deadlineMs?: number | undefined;
  readonly beforeSend?: (() => void) | undefined;
  /** Larger answers are refused with an AnswerTooLargeError; by default as the transport's option says. */
  readonly maxAnswerBytes?: number | undefined;
  /** Called with the bytes of an answer that has come. */
  readonly onAnswerBytes?: ((bytes: number) => void) | undefined;
  /** Makes of the chunks of an answer the bytes that are decoded, and not needed any more afterwards; by default all of them. */
  readonly gather?: ((chunks: readonly Uint8Array[], bytes: number) => Buffer) | undefined;
}

export interface TransportOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: KubeMetrics;
  /** How long a call may take, repetitions included; of a watch, its start. 10 s by default. */
  readonly deadlineMs?: number;
  /** Connections for calls; watches have their own. 16 by default. */
  readonly connections?: number;
  /** Larger answers are refused; 64 MiB by default. */
  readonly maxAnswerBytes?: number;
  /** Carries everything, instead of connections of its own: for a network that is simulated. */
  readonly dispatcher?: Dispatcher;
}

const defaultMaxAnswerBytes = 67_108_864;
const maxAttempts = 5;
const backoff: BackoffOptions = { baseMs: 50, capMs: 5000, factor: 3, jitter: 0.5 };

/** Statuses after which a read is repeated. 429 means "not executed" and is repeated for every verb. */
const passingStatuses: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/**
 * HTTP to one API server over kept-alive connections.
 *
 * Promises: a call has ended after its deadline. A read is repeated after a lost connection, 429 and 5xx. A write is repeated
 * only when it was surely not executed: the server said 429, or nothing had been handed to a connection. Every other failure of
 * a write is thrown, because a repetition could do it twice.
 */
export class Transport {
  readonly #options: TransportOptions;
  readonly #calls: Dispatcher;
  readonly #watches: Dispatcher;
  readonly #prefix: string;

  constructor(options: TransportOptions) {
    this.#options = options;
    const { connection, connections = 16, dispatcher } = options;
    const url = new URL(connection.server);
    this.#prefix = url.pathname.replace(/\/+$/, '');
    const { ca, cert, key, serverName, insecure } = connection;
    const pool = {
      allowH2: false,
      pipelining: 1,
      keepAliveTimeout: 60_000,
      connect: {
        timeout: 10_000,
        rejectUnauthorized: insecure !== true,
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined ? {} : { cert }),
        ...(key === undefined ? {} : { key }),
        ...(serverName === undefined ? {} : { servername: serverName }),
      },
    };
    this.#calls = dispatcher ?? new Pool(url.origin, { ...pool, connections });
    // Unbounded: a watch holds its connection, and one that waited for a free one would be silently deaf.
    this.#watches = dispatcher ?? new Pool(url.origin, { ...pool, connections: null });
  }

  /** The parsed body of a 2xx answer. Throws ApiError and TransportError. */
  async call(request: TransportRequest): Promise<unknown> {
    return this.#repeat(request, async (signal) => {
      const answer = await this.#send(this.#calls, request, signal);
      const bytes = await this.#read(answer.body, request);
      if (answer.status < 200 || answer.status > 299) throw apiError(answer, bytes.toString('utf8'));
      return { status: answer.status, result: parseAnswer(bytes.toString('utf8')) };
    });
  }

  /** The body of a 2xx answer as it comes in, until `request.signal` is aborted. Throws like `call`, in the midst too. */
  async stream(request: TransportRequest & { readonly signal: AbortSignal }): Promise<AsyncIterable<Uint8Array>> {
    return this.#repeat(request, async (starting) => {
      const reading = new AbortController();
      const stop = () => {
        reading.abort(starting.reason);
      };
      starting.addEventListener('abort', stop, { once: true });
      try {
        const answer = await this.#send(this.#watches, request, AbortSignal.any([reading.signal, request.signal]));
        if (answer.status < 200 || answer.status > 299) throw apiError(answer, (await this.#read(answer.body, request)).toString('utf8'));
        return { status: answer.status, result: answer.body };
      } finally {
        starting.removeEventListener('abort', stop);
      }
    });
  }

  /** Ends every connection, and what still runs on them. */
  async close(): Promise<void> {
    const reason = new TransportError('the transport was closed');
    await Promise.all([this.#calls.destroy(reason), this.#watches.destroy(reason)]);
  }

  async #send(pool: Dispatcher, request: TransportRequest, signal: AbortSignal): Promise<Answer> {
    const { body, contentType = 'application/json', accept = 'application/json' } = request;
    const token = await this.#token();
    return exchange({
      dispatcher: pool,
      method: request.method,
      path: this.#prefix + request.path,
      headers: {
        accept,
        'user-agent': 'conversation-operator',
        ...(body === undefined ? {} : { 'content-type': contentType }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      // A watch that begins as another ends would leave that one's connection idle beside its own: each has one, and no more.
      closing: request.verb === 'watch',
      signal,
      beforeSend: request.beforeSend,
    });
  }

  async #token(): Promise<string | undefined> {
    const { token } = this.#options.connection;
    if (typeof token !== 'function') return token;
    try {
      return await token();
    } catch (error) {
      throw new TransportError('no credentials for the API server', { cause: error, sent: false });
    }
  }

  async #repeat<T>(request: TransportRequest, attempt: (signal: AbortSignal) => Promise<{ status: number; result: T }>): Promise<T> {
    const { clock, logger } = this.#options;
    const deadlineMs = request.deadlineMs ?? this.#options.deadlineMs ?? 10_000;
    const deadlineAt = clock.monotonic() + deadlineMs;
    const deadline = new AbortController();
    const timer = clock.after(deadlineMs, () => {
      deadline.abort(new DeadlineError(`no answer within ${deadlineMs} ms`));
    });
    const signal = request.signal === undefined ? deadline.signal : AbortSignal.any([deadline.signal, request.signal]);
    try {
      for (let failures = 1; ; failures++) {
        const began = clock.monotonic();
        try {
          const { status, result } = await attempt(signal);
          this.#measure(request, status, began);
          return result;
        } catch (error) {
          this.#measure(request, error instanceof ApiError ? error.status : 0, began);
          if (signal.aborted || failures === maxAttempts || !mayRepeat(request, error)) throw error;
          const delayMs = Math.max(retryAfterMs(error), backoffDelayMs(backoff, failures, this.#options.random));
          if (clock.monotonic() + delayMs >= deadlineAt) throw error;
          logger.debug('API call is repeated', { verb: request.verb, resource: request.resource, failures, delayMs, error });
          await pause(clock, delayMs, signal, error);
        }
      }
    } finally {
      timer.cancel();
    }
  }

  #measure({ verb, resource }: TransportRequest, status: number, began: number): void {
    const { metrics, clock } = this.#options;
    if (metrics === undefined) return;
    metrics.apiCalls.inc({ verb, resource, status: String(status) });
    metrics.apiCallSeconds.observe({ verb }, (clock.monotonic() - began) / 1000);
  }

  async #read(body: AsyncIterable<Uint8Array>, request: TransportRequest): Promise<Buffer> {
    const maxAnswerBytes = request.maxAnswerBytes ?? this.#options.maxAnswerBytes ?? defaultMaxAnswerBytes;
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.byteLength;
      if (bytes > maxAnswerBytes) throw new AnswerTooLargeError(maxAnswerBytes);
      chunks.push(chunk);
    }
    request.onAnswerBytes?.(bytes);
    return request.gather?.(chunks, bytes) ?? Buffer.concat(chunks, bytes);
  }
}

const isRead = ({ method }: TransportRequest): boolean => method === 'GET';

function mayRepeat(request: TransportRequest, error: unknown): boolean {
  if (error instanceof ApiError) return error.status === 429 || (isRead(request) && passingStatuses.has(error.status));
  if (error instanceof AnswerTooLargeError) return false;
  return error instanceof TransportError && (isRead(request) || !error.sent);
}

const retryAfterMs = (error: unknown): number => (error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0);

/** When waiting is cut short, what is thrown is the failure that was waited after. */
async function pause(clock: Clock, delayMs: number, signal: AbortSignal, failure: unknown): Promise<void> {
  try {
    await sleep(clock, delayMs, signal);
  } catch {
    throw failure;
  }
}

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new TransportError('the answer is not JSON', { cause: error });
  }
}

/** Proxies and load balancers in front of an API server answer without a Status; then the text stands in for its message. */
function apiError(answer: Answer, text: string): ApiError {
  const retryAfter = answer.headers['retry-after'];
  const seconds = typeof retryAfter === 'string' && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return new ApiError(answer.status, statusBody(answer.status, text), {
    retryAfterMs: seconds === undefined ? undefined : seconds * 1000,
  });
}

function statusBody(status: number, text: string): StatusBody {
  try {
    const body = JSON.parse(text) as unknown;
    if (typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'Status') return body as StatusBody;
  } catch {
    // Not JSON: handled like JSON that is no Status.
  }
  return text === '' ? {} : { message: `API server answered ${status}: ${text.slice(0, 200)}` };
}
