import { Pool, type Dispatcher } from 'undici';
import { backoffDelayMs, type BackoffOptions } from '@conversation-operator/base/backoff';
import { sleep } from '@conversation-operator/base/clock';
import {
  ResponseTooLargeError,
  ApiError,
  DeadlineError,
  TransportError,
  type StatusBody,
} from './errors.ts';
import type { RuntimeOptions } from './runtime-options.ts';
import { roundTrip, type HttpResponse } from './round-trip.ts';

export interface Connection {
  /** URL of the server: `https:`, or `http:` for loopback. A path before `/api` is kept. */
  readonly server: string;
  /** Bearer token. A function is called before every request, as the token file may be replaced. */
  readonly token?: string | (() => Promise<string>) | undefined;
  /** `ca`, `cert` and `key` are the CA, the client certificate and its key, all in PEM. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Name in the certificate of the server, when the name differs from the host. */
  readonly serverName?: string | undefined;
  readonly insecure?: boolean;
}

export interface TransportRequest {
  /** Value of the label `verb` in metrics. */
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  /** Plural of the resource; value of the label `resource` in metrics. */
  readonly resource: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  /** Media type of the body; default application/json. */
  readonly contentType?: string;
  /** Accepted media types of the response; default application/json. */
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly deadlineMs?: number | undefined;
  readonly beforeSend?: (() => void) | undefined;
  /** A longer response throws a ResponseTooLargeError. Default: that of TransportOptions. */
  readonly maxResponseBytes?: number | undefined;
  readonly onResponseBytes?: ((bytes: number) => void) | undefined;
  /** Joins the chunks of the response before it is decoded. Default: `Buffer.concat`. */
  readonly gather?: ((chunks: readonly Uint8Array[], bytes: number) => Buffer) | undefined;
  /** Parses the text of a 2xx response. Throws for text that is not JSON. Default: JSON.parse. */
  readonly parse?: ((text: string) => unknown) | undefined;
}

export interface TransportOptions extends RuntimeOptions {
  readonly connection: Connection;
  /** Maximum duration of a call with its retries, or of the start of a watch; default 10 s. */
  readonly deadlineMs?: number;
  /** Maximum connections for calls; default 16. Watches have their own connections. */
  readonly connections?: number;
  /** Maximum bytes of a response; a larger response fails. Default 64 MiB. */
  readonly maxResponseBytes?: number;
  /** Dispatcher of undici in place of the two connection pools, for a simulated network. */
  readonly dispatcher?: Dispatcher;
}

const defaultMaxResponseBytes = 67_108_864;
const maxAttempts = 5;
const backoff: BackoffOptions = { baseMs: 50, capMs: 5000, factor: 3, jitter: 0.5 };

/** Statuses after which the transport retries a read. After 429, it retries every request. */
const transientStatuses: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/**
 * HTTP client of one API server with persistent connections.
 *
 * A call ends before its deadline. The transport retries a read after a lost connection, 429 and
 * `transientStatuses`. The transport retries a write only when the server has certainly not
 * executed it: the server answered 429, or no request was handed to a connection. Every other
 * failure of a write is thrown, because a retry could execute the write twice.
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
        ca,
        cert,
        key,
        servername: serverName,
      },
    };
    this.#calls = dispatcher ?? new Pool(url.origin, { ...pool, connections });
    // The pool is unlimited, because a watch that waits for a connection would receive no events.
    this.#watches = dispatcher ?? new Pool(url.origin, { ...pool, connections: null });
  }

  /** Returns the parsed body of a 2xx response. Throws ApiError and TransportError. */
  async call(request: TransportRequest): Promise<unknown> {
    return this.#repeat(request, async (signal) => {
      const response = await this.#send(this.#calls, request, signal);
      const bytes = await this.#read(response.body, request);
      if (response.status < 200 || response.status > 299)
        throw apiError(response, bytes.toString('utf8'));
      return { status: response.status, result: parseResponse(bytes.toString('utf8'), request) };
    });
  }

  /** Returns the body of a 2xx response, which `request.signal` ends. Throws like `call`. */
  async stream(
    request: TransportRequest & { readonly signal: AbortSignal },
  ): Promise<AsyncIterable<Uint8Array>> {
    return this.#repeat(request, async (starting) => {
      const reading = new AbortController();
      const stop = () => {
        reading.abort(starting.reason);
      };
      starting.addEventListener('abort', stop, { once: true });
      try {
        const response = await this.#send(
          this.#watches,
          request,
          AbortSignal.any([reading.signal, request.signal]),
        );
        if (response.status < 200 || response.status > 299)
          throw apiError(response, (await this.#read(response.body, request)).toString('utf8'));
        return { status: response.status, result: response.body };
      } finally {
        starting.removeEventListener('abort', stop);
      }
    });
  }

  async close(): Promise<void> {
    const reason = new TransportError('the transport was closed');
    await Promise.all([this.#calls.destroy(reason), this.#watches.destroy(reason)]);
  }

  async #send(
    pool: Dispatcher,
    request: TransportRequest,
    signal: AbortSignal,
  ): Promise<HttpResponse> {
    const { body, contentType = 'application/json', accept = 'application/json' } = request;
    const token = await this.#token();
    return roundTrip({
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
      // The pool opens a connection for every watch, so a kept connection would remain unused.
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

  async #repeat<T>(
    request: TransportRequest,
    attempt: (signal: AbortSignal) => Promise<{ status: number; result: T }>,
  ): Promise<T> {
    const { clock, logger } = this.#options;
    const deadlineMs = request.deadlineMs ?? this.#options.deadlineMs ?? 10_000;
    const deadlineAt = clock.monotonic() + deadlineMs;
    const deadline = new AbortController();
    const timer = clock.after(deadlineMs, () => {
      deadline.abort(new DeadlineError(`no response within ${deadlineMs} ms`));
    });
    const signal =
      request.signal === undefined
        ? deadline.signal
        : AbortSignal.any([deadline.signal, request.signal]);
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
          const delayMs = Math.max(
            retryAfterMs(error),
            backoffDelayMs(backoff, failures, this.#options.random),
          );
          if (clock.monotonic() + delayMs >= deadlineAt) throw error;
          logger.debug('API call is retried', {
            verb: request.verb,
            resource: request.resource,
            failures,
            delayMs,
            error,
          });
          // If the signal ends the delay early, the call throws the error that caused the delay.
          await sleep(clock, delayMs, signal).catch(() => {
            throw error;
          });
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
    const maxResponseBytes =
      request.maxResponseBytes ?? this.#options.maxResponseBytes ?? defaultMaxResponseBytes;
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.byteLength;
      if (bytes > maxResponseBytes) throw new ResponseTooLargeError(maxResponseBytes);
      chunks.push(chunk);
    }
    request.onResponseBytes?.(bytes);
    return request.gather?.(chunks, bytes) ?? Buffer.concat(chunks, bytes);
  }
}

const isRead = ({ method }: TransportRequest): boolean => method === 'GET';

function mayRepeat(request: TransportRequest, error: unknown): boolean {
  if (error instanceof ApiError)
    return error.status === 429 || (isRead(request) && transientStatuses.has(error.status));
  if (error instanceof ResponseTooLargeError) return false;
  return error instanceof TransportError && (isRead(request) || !error.sent);
}

const retryAfterMs = (error: unknown): number =>
  error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;

function parseResponse(text: string, { parse = JSON.parse }: TransportRequest): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw new TransportError('the response is not JSON', { cause: error });
  }
}

/** Creates the error of a response. A text that is no Status, such as a proxy's, is the message. */
function apiError(response: HttpResponse, text: string): ApiError {
  const retryAfter = response.headers['retry-after'];
  const seconds =
    typeof retryAfter === 'string' && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return new ApiError(response.status, statusBody(response.status, text), {
    retryAfterMs: seconds === undefined ? undefined : seconds * 1000,
  });
}

function statusBody(status: number, text: string): StatusBody {
  try {
    const body = JSON.parse(text) as unknown;
    if (typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'Status')
      return body as StatusBody;
  } catch {
    // The text is not JSON and therefore no Status.
  }
  return text === '' ? {} : { message: `API server answered ${status}: ${text.slice(0, 200)}` };
}
