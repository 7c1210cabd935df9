import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { type Clock, IdleTimer } from '@conversation-operator/base/clock';
import { isClosedConnection } from '@conversation-operator/base/system-code';
import { hasContent, responseHeaders, type ForwardingFacts } from './headers.ts';
import { upstreamErrorOf, type UpstreamError, type Upstream } from './upstream.ts';

export interface ForwardedRequestOptions {
  readonly request: Readable & Pick<IncomingMessage, 'method'>;
  readonly response: ServerResponse;
  readonly upstream: Upstream;
  readonly path: string;
  /** Headers for the upstream, as alternating names and values. */
  readonly headers: string[];
  readonly facts: ForwardingFacts;
  /** Whether the connection to the client closes after the response. */
  readonly isLast: () => boolean;
  readonly clientIdleMs: number;
  readonly clock: Clock;
  /** Called when the client reads its response more slowly than it arrives. */
  readonly onStall: () => void;
  /** Called if no part of a response was forwarded. The caller then responds to the client. */
  readonly onFailure: (error: UpstreamError) => void;
}

/** Maximum number of 1xx responses, which are not forwarded. More only keep the proxy busy. */
const maxInformational = 64;

/** Maximum buffered bytes of a request's body, on each side of the `PassThrough`. */
const bodyBufferBytes = 16 * 1024;

/** Methods that may be sent twice without harm. */
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** Forwards an HTTP request and its response, both streamed as fast as their readers read. */
export class ForwardedRequest implements Dispatcher.DispatchHandler {
  readonly #options: ForwardedRequestOptions;
  #controller: Dispatcher.DispatchController | undefined;
  #retried = false;
  #informational = 0;
  #hasBegun = false;
  #isOver = false;
  #sending: IdleTimer | undefined;
  #taking: IdleTimer | undefined;
  #body: PassThrough | undefined;

  constructor(options: ForwardedRequestOptions) {
    this.#options = options;
  }

  start(): void {
    const { request, response, facts } = this.#options;
    response.once('close', () => this.#end());
    if (facts.hasBody) this.#body = this.#readBody(request);
    this.#dispatch();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isOver) controller.abort(new ClientGone('the client is gone'));
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    // Clients need no informational response.
    if (status < 200) {
      this.#informational += 1;
      if (this.#informational > maxInformational)
        controller.abort(new Error('the upstream sends nothing but 1xx'));
      return;
    }
    const { response, facts, isLast } = this.#options;
    this.#hasBegun = true;
    const raw = Array.isArray(controller.rawHeaders) ? controller.rawHeaders : [];
    const headers = responseHeaders(raw, facts, status);
    if (isLast()) headers.push('connection', 'close');
    // `writeHead` with a list replaces headers of the same name that are already set.
    const vary = response.getHeader('vary');
    if (vary !== undefined) headers.push('vary', String(vary));
    response.writeHead(status, headers);
    // If no data follows at once, sends the head now. Otherwise one write sends head and data.
    queueMicrotask(() => {
      if (!response.writableEnded && !response.destroyed) response.flushHeaders();
    });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { response, clientIdleMs, clock, onStall } = this.#options;
    if (!hasContent(response.statusCode) || response.write(chunk)) return;
    controller.pause();
    onStall();
    this.#taking = new IdleTimer({ clock, idleMs: clientIdleMs, onIdle: () => response.destroy() });
    response.once('drain', () => {
      this.#taking?.stop();
      controller.resume();
    });
  }

  onResponseEnd(): void {
    this.#options.response.end();
  }

  onResponseError(_controller: unknown, error: Error): void {
    const { request, response, onFailure } = this.#options;
    if (this.#isOver) return;
    if (this.#hasBegun) {
      response.destroy();
    } else if (
      !this.#retried &&
      this.#body === undefined &&
      idempotent.has(request.method ?? '') &&
      isClosedConnection(error)
    ) {
      this.#retried = true;
      this.#dispatch();
    } else {
      this.#dropBody();
      onFailure(upstreamErrorOf(error));
    }
  }

  #dispatch(): void {
    const { request, upstream, path, headers } = this.#options;
    try {
      upstream.pool.dispatch(
        { path, method: request.method ?? 'GET', headers, body: this.#body ?? null },
        this,
      );
    } catch (error) {
      this.#dropBody();
      this.#options.onFailure(upstreamErrorOf(error));
    }
  }

  /** Copies the body, so that the client's connection stays open if the upstream fails. */
  #readBody(request: Readable): PassThrough {
    const { response, clientIdleMs, clock } = this.#options;
    const body = new PassThrough({ highWaterMark: bodyBufferBytes });
    const timer = new IdleTimer({
      clock,
      idleMs: clientIdleMs,
      onIdle: () => {
        // The upstream stalls, not the client. undici's `headersTimeout` ends such a request.
        if (body.writableNeedDrain) timer.touch();
        else response.destroy();
      },
    });
    this.#sending = timer;
    request.on('data', () => timer.touch());
    request.once('end', () => timer.stop());
    request.once('error', () => body.destroy(new ClientGone('the client is gone')));
    body.on('error', () => request.unpipe(body));
    request.pipe(body);
    return body;
  }

  #dropBody(): void {
    const { request } = this.#options;
    this.#sending?.stop();
    if (this.#body === undefined) return;
    request.unpipe(this.#body);
    this.#body.destroy();
    request.resume();
  }

  #end(): void {
    const { response } = this.#options;
    this.#isOver = true;
    this.#sending?.stop();
    this.#taking?.stop();
    this.#body?.destroy();
    if (!response.writableFinished) this.#controller?.abort(new ClientGone('the client is gone'));
  }
}
