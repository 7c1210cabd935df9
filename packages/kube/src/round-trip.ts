import type { Dispatcher } from 'undici';
import { TransportError } from './errors.ts';

export interface RoundTripOptions {
  readonly dispatcher: Dispatcher;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Closes the connection after the response instead of keeping it. */
  readonly closing?: boolean;
  /** Ends the request at any time with a TransportError, whose cause is the signal's reason. */
  readonly signal: AbortSignal;
  /** See `CallOptions.beforeSend`. */
  readonly beforeSend?: (() => void) | undefined;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Body of the response, to be read once. A reader that stops early closes the connection. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Maximum unread bytes of a body before the client pauses the connection. */
const highWaterBytes = 1_048_576;

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/**
 * One request and its response on a pooled connection. Uses undici's `dispatch`, because `request`
 * does not report when a request that waited for a connection is written to a socket, nor whether a
 * failed request had been written.
 */
class RoundTrip implements Dispatcher.DispatchHandler {
  readonly #options: RoundTripOptions;
  readonly #onAbort: () => void;
  readonly #response = Promise.withResolvers<HttpResponse>();
  #controller: Dispatcher.DispatchController | undefined;
  #sent = false;
  #ended = false;
  #failure: Error | undefined;
  #chunks: Uint8Array[] = [];
  #waitingBytes = 0;
  #wake: (() => void) | undefined;

  constructor(options: RoundTripOptions) {
    this.#options = options;
    this.#onAbort = () => {
      this.#fail(this.#transportError('the call was aborted', options.signal.reason));
    };
  }

  run(): Promise<HttpResponse> {
    const { dispatcher, method, path, headers, body, closing = false, signal } = this.#options;
    if (signal.aborted) {
      this.#onAbort();
    } else {
      signal.addEventListener('abort', this.#onAbort, { once: true });
      // The transport enforces deadlines with its own clock, so undici's timeouts are off.
      dispatcher.dispatch(
        {
          method,
          path,
          headers,
          body: body ?? null,
          reset: closing,
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        this,
      );
    }
    return this.#response.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // The request failed while it waited for a connection, and its caller has received the error.
    if (this.#failure !== undefined) {
      controller.abort(this.#failure);
      return;
    }
    try {
      this.#options.beforeSend?.();
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    this.#sent = true;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: HttpResponse['headers'],
  ): void {
    if (status < 200) return;
    this.#response.resolve({ status, headers, body: this.#body() });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#waitingBytes += chunk.byteLength;
    if (this.#waitingBytes > highWaterBytes) controller.pause();
    this.#wakeUp();
  }

  onResponseEnd(): void {
    this.#ended = true;
    this.#stopListening();
    this.#wakeUp();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#transportError(messageOf(error), error));
  }

  async *#body(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const chunks = this.#chunks;
        this.#chunks = [];
        this.#waitingBytes = 0;
        if (this.#controller?.paused === true) this.#controller.resume();
        yield* chunks;
        if (this.#chunks.length > 0) continue;
        if (this.#failure !== undefined) throw this.#failure;
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      if (!this.#ended)
        this.#fail(this.#transportError('the response was not read to its end', undefined));
    }
  }

  /** Records the first failure only, because later failures are consequences of the first. */
  #fail(failure: Error): void {
    if (this.#failure !== undefined || this.#ended) return;
    this.#failure = failure;
    this.#stopListening();
    this.#response.reject(failure);
    this.#controller?.abort(failure);
    this.#wakeUp();
  }

  #transportError(message: string, cause: unknown): TransportError {
    const { method, path } = this.#options;
    return new TransportError(`${method} ${path.split('?', 1)[0] ?? path}: ${message}`, {
      cause,
      sent: this.#sent,
    });
  }

  #stopListening(): void {
    this.#options.signal.removeEventListener('abort', this.#onAbort);
  }

  #wakeUp(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** Resolves with a response of any status. Throws a TransportError, or what `beforeSend` throws. */
export const roundTrip = (options: RoundTripOptions): Promise<HttpResponse> =>
  new RoundTrip(options).run();
