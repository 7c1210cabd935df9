import type { Readable } from 'node:stream';
import type { Outward } from '@conversation-operator/outward/outward';
import { ProxyError } from '@conversation-operator/outward/proxy-error';
import type { Dispatcher } from 'undici';

export interface ProviderRequest {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal;
}

export interface ProviderAnswer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** The caller has to read or destroy the body. */
  readonly body: Readable;
}

/** A provider gave no answer. Agents get the message, which has no address; the cause is for logs. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  /** Whether the provider may have received the request, and so may charge for it. */
  readonly mayBeCharged: boolean;
  /** The status of a redirect; undefined: there was no answer at all. */
  readonly redirect: number | undefined;

  constructor(
    message: string,
    mayBeCharged: boolean,
    { redirect, ...options }: ErrorOptions & { readonly redirect?: number } = {},
  ) {
    super(message, options);
    this.mayBeCharged = mayBeCharged;
    this.redirect = redirect;
  }
}

/**
 * Maximum concurrent connections to one provider, above the total of the pool `modelCalls`: a call
 * that waited here for the answers of others would not notice that its agent has left.
 */
const connections = 4096;
const connectTimeoutMs = 10_000;

/** The connections of one gateway to the providers of models. A redirect is not followed. */
export class Providers {
  readonly #dispatcher: Dispatcher;

  constructor(outward: Outward) {
    this.#dispatcher = outward.pool({ connections, connectTimeoutMs });
  }

  /** Resolves when the headers have arrived, whatever the status. Throws `ProviderError`. */
  async send({ method, url, headers, body, signal }: ProviderRequest): Promise<ProviderAnswer> {
    const progress = { isSent: false };
    const dispatcher = this.#dispatcher.compose(
      (dispatch) => (options, handler) =>
        dispatch(
          options,
          noticing(handler, () => (progress.isSent = true)),
        ),
    );
    try {
      const response = await dispatcher.request({
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method,
        headers,
        body: body ?? null,
        signal,
      });
      // Without a listener for `error`, an abort after the last read would end the process.
      response.body.on('error', () => undefined);
      return { status: response.statusCode, headers: response.headers, body: response.body };
    } catch (cause) {
      if (cause instanceof ProxyError || !progress.isSent)
        throw new ProviderError('The provider of the model can not be reached.', false, { cause });
      const message = 'The provider of the model has closed the connection without an answer.';
      throw new ProviderError(message, true, { cause });
    }
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }
}

/**
 * The handler of one request, with a callback before its first byte is sent. Whatever fails until
 * then (a name, a proxy, a certificate, a header) has cost nothing.
 */
const noticing = (
  handler: Dispatcher.DispatchHandler,
  onSent: () => void,
): Dispatcher.DispatchHandler => ({
  onRequestStart: (controller, context) => {
    handler.onRequestStart?.(controller, context);
    if (!controller.aborted) onSent();
  },
  onRequestUpgrade: (...upgrade) => handler.onRequestUpgrade?.(...upgrade),
  onResponseStart: (...head) => handler.onResponseStart?.(...head),
  onResponseData: (...data) => handler.onResponseData?.(...data),
  onResponseEnd: (...end) => handler.onResponseEnd?.(...end),
  onResponseError: (...failure) => handler.onResponseError?.(...failure),
});
