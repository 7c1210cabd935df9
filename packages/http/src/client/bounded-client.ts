import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher, type FormData } from 'undici';
import { isNotConnected } from '@conversation-operator/base/system-code';

export type CallFault =
  /** The connection was not established, so that nothing was sent. */
  | 'unreachable'
  /** No complete response arrived in time. */
  | 'timeout'
  /** The caller's signal was aborted. */
  | 'aborted'
  /** The connection broke after the request had been sent. */
  | 'connection-lost'
  | 'too-large'
  /** The body came in chunks of a few bytes. */
  | 'too-fragmented';

/** Error of a call without a complete response. The cause is for logs. */
export class CallError extends Error {
  override readonly name = 'CallError';
  readonly fault: CallFault;

  constructor(fault: CallFault, options?: ErrorOptions) {
    super(`call: ${fault}`, options);
    this.fault = fault;
  }
}

/** Allowed chunks beyond one per `minChunkBytes`. Each chunk takes some KiB of memory. */
const maxSmallChunks = 1_000;
const minChunkBytes = 256;

/**
 * Aborts a response in very small chunks before undici joins them. To join a mebibyte of chunks of
 * one byte would block the event loop, and thereby all other requests, for seconds.
 */
const limitChunks: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  let chunks = 0;
  let bytes = 0;
  return dispatch(options, {
    onRequestStart: (...event) => handler.onRequestStart?.(...event),
    onRequestUpgrade: (...event) => handler.onRequestUpgrade?.(...event),
    onResponseStart: (...event) => handler.onResponseStart?.(...event),
    onResponseData: (controller, chunk) => {
      chunks += 1;
      bytes += chunk.length;
      if (chunks > maxSmallChunks + bytes / minChunkBytes)
        controller.abort(new CallError('too-fragmented'));
      else handler.onResponseData?.(controller, chunk);
    },
    onResponseEnd: (...event) => handler.onResponseEnd?.(...event),
    onResponseError: (...event) => handler.onResponseError?.(...event),
  });
};

export interface BoundedCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: FormData | string | null;
  /** Whether repeating the call has the same effect and response. Default: true for GET only. */
  readonly repeatable?: boolean | undefined;
  /** Maximum time from the request to the last byte of the response, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface BoundedResponse {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** The caller has to read or destroy the body, unless it calls `bytes` or `text`. */
  readonly body: Readable;
  /** Reads the body, or rejects with a `CallError`. Closes the connection beyond `maxBytes`. */
  readonly bytes: (maxBytes: number) => Promise<Buffer>;
  /** Reads the body like `bytes`, and decodes it as UTF-8. */
  readonly text: (maxBytes: number) => Promise<string>;
}

/**
 * Maximum idle times of connections, in milliseconds. A request is lost if the server closes the
 * idle connection at the same moment. The client then repeats a repeatable call. The server may
 * have executed a write, so `writesMs` should be far below the idle timeouts of servers.
 */
export interface KeepAlive {
  readonly readsMs: number;
  readonly writesMs: number;
}

export interface BoundedClientOptions {
  readonly connectTimeoutMs: number;
  readonly keepAlive: KeepAlive;
}

/** Time after which common servers close an idle connection, in milliseconds. */
const serverKeepsMs = 5000;
/** Maximum connections to one origin for repeatable calls. Other calls have the same maximum. */
const connections = 32;

/**
 * Calls untrusted servers over pooled connections. Limits the time, the size and the chunks of a
 * response, and follows no redirect. Every failure is a `CallError`.
 */
export class BoundedClient {
  readonly #reads: Dispatcher;
  readonly #writes: Dispatcher;

  constructor({ connectTimeoutMs, keepAlive }: BoundedClientOptions) {
    this.#reads = pool(connectTimeoutMs, keepAlive.readsMs);
    this.#writes = pool(connectTimeoutMs, keepAlive.writesMs);
  }

  async send(
    call: BoundedCall,
    maxBodyBytes: number,
  ): Promise<Pick<BoundedResponse, 'status' | 'headers'> & { readonly text: string }> {
    try {
      return await this.#sendOnce(call, maxBodyBytes);
    } catch (error) {
      // The server may have closed the idle connection while the request was sent.
      const again =
        isRepeatable(call) && error instanceof CallError && error.fault === 'connection-lost';
      if (!again) throw error;
      return await this.#sendOnce(call, maxBodyBytes);
    }
  }

  /** Resolves when the headers have arrived, whatever the status. `timeoutMs` includes the body. */
  async open(call: BoundedCall): Promise<BoundedResponse> {
    const { method, url, headers = {}, body: sent = null } = call;
    const deadline = new Deadline(call.timeoutMs, call.signal);
    const { signal } = deadline;
    const dispatcher = isRepeatable(call) ? this.#reads : this.#writes;
    try {
      const response = await request(url, { dispatcher, method, headers, body: sent, signal });
      const { statusCode: status, body } = response;
      body.once('close', () => deadline.end());
      const bytes = (maxBytes: number) =>
        readBounded(body, maxBytes).catch((error: unknown) => {
          throw callErrorOf(error, call, deadline);
        });
      const text = async (maxBytes: number) => (await bytes(maxBytes)).toString('utf8');
      return { status, headers: response.headers, body, bytes, text };
    } catch (error) {
      deadline.end();
      throw callErrorOf(error, call, deadline);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#reads.destroy(), this.#writes.destroy()]);
  }

  async #sendOnce(call: BoundedCall, maxBodyBytes: number) {
    const { status, headers, text } = await this.open(call);
    return { status, headers, text: await text(maxBodyBytes) };
  }
}

const isRepeatable = ({ method, repeatable = method === 'GET' }: BoundedCall): boolean =>
  repeatable;

function pool(connectTimeoutMs: number, keepAliveMs: number): Dispatcher {
  return new Agent({
    connect: { timeout: connectTimeoutMs },
    connections,
    keepAliveTimeout: keepAliveMs,
    // Limits the idle time even if the server's header `Keep-Alive` allows a longer time.
    keepAliveMaxTimeout: keepAliveMs,
    // If a server sends a shorter `Keep-Alive`, its connections close this long before that time.
    keepAliveTimeoutThreshold: serverKeepsMs - keepAliveMs,
    // The deadline of the whole call replaces undici's timeouts.
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  }).compose(limitChunks);
}

function callErrorOf(error: unknown, { signal }: BoundedCall, deadline: Deadline): CallError {
  if (error instanceof CallError) return error;
  if (signal?.aborted === true) return new CallError('aborted', { cause: error });
  if (deadline.hasPassed) return new CallError('timeout', { cause: error });
  return new CallError(isNotConnected(error) ? 'unreachable' : 'connection-lost', { cause: error });
}

/** Throws `too-large` beyond `maxBytes`, and then destroys the body and the connection. */
async function readBounded(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw new CallError('too-large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * A signal for the timeout and the cancellation of a call; `AbortSignal.any` would cost as much
 * time as the rest of the call. The caller calls `end` after the call.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #giveUp = () => this.#controller.abort(this.#outer?.reason);
  #hasPassed = false;

  constructor(afterMs: number, outer?: AbortSignal) {
    this.#outer = outer;
    this.#timer = setTimeout(() => {
      this.#hasPassed = true;
      this.#controller.abort(new Error(`not over after ${afterMs} ms`));
    }, afterMs);
    this.#timer.unref();
    outer?.addEventListener('abort', this.#giveUp, { once: true });
    if (outer?.aborted === true) this.#giveUp();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get hasPassed(): boolean {
    return this.#hasPassed;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener('abort', this.#giveUp);
  }
}
