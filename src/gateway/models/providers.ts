import type { Readable } from 'node:stream';
import { isNotConnected, systemCodeOf } from '@conversation-operator/base/system-code';
import type { Outward } from '@conversation-operator/outward/outward';
import { ProxyError } from '@conversation-operator/outward/proxy-error';
import { errors, type Dispatcher } from 'undici';

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

/** A provider gave no answer. The message has no address, and the cause is for logs. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  /** Whether the provider may have received the request, and so may charge for it. */
  readonly mayBeCharged: boolean;

  constructor(reason: string, mayBeCharged: boolean, options?: ErrorOptions) {
    super(`The provider of the model can not be asked: ${reason}.`, options);
    this.mayBeCharged = mayBeCharged;
  }
}

/** Maximum concurrent connections to one provider; further calls wait. */
const connections = 1024;
const connectTimeoutMs = 10_000;

const isUnsent = (error: unknown): boolean =>
  isNotConnected(error) ||
  error instanceof ProxyError ||
  error instanceof errors.ConnectTimeoutError ||
  error instanceof errors.InvalidArgumentError;

/** The connections of one gateway to the providers of models. A redirect is not followed. */
export class Providers {
  readonly #dispatcher: Dispatcher;

  constructor(outward: Outward) {
    this.#dispatcher = outward.pool({ connections, connectTimeoutMs });
  }

  /** Resolves when the headers have arrived, whatever the status. Throws `ProviderError`. */
  async send({ method, url, headers, body, signal }: ProviderRequest): Promise<ProviderAnswer> {
    try {
      const response = await this.#dispatcher.request({
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
      const code = systemCodeOf(cause) ?? '';
      const reason = /^[A-Z0-9_]{1,64}$/.test(code) ? code : 'connection';
      throw new ProviderError(reason, !isUnsent(cause), { cause });
    }
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }
}
