import { systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * - PROXY_AUTHENTICATION: the proxy requires credentials, or rejects the given ones (407).
 * - PROXY_REFUSED: the proxy does not connect to the host (403 and others).
 * - PROXY_GATEWAY: the proxy does not reach the host (5xx).
 * - PROXY_UNREACHABLE: the connection to the proxy fails, or its certificate is not trusted.
 * - PROXY_TIMEOUT: the proxy has not answered in time.
 */
export type ProxyErrorCode =
  | 'PROXY_AUTHENTICATION'
  | 'PROXY_REFUSED'
  | 'PROXY_GATEWAY'
  | 'PROXY_UNREACHABLE'
  | 'PROXY_TIMEOUT';

/** The proxy did not forward a request to its host. Contains no address and no credential. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly code: ProxyErrorCode;

  constructor(code: ProxyErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export function refusalOf(status: number): ProxyError {
  if (status === 407)
    return new ProxyError(
      'PROXY_AUTHENTICATION',
      'The proxy answers 407: it wants credentials, or others',
    );
  return status >= 500
    ? new ProxyError('PROXY_GATEWAY', `The proxy answers ${status}: it can not connect to the host`)
    : new ProxyError('PROXY_REFUSED', `The proxy answers ${status}: it refuses the host`);
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

const timeouts: ReadonlySet<unknown> = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT']);

export function failureOf(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error;
  const code = systemCodeOf(error);
  // `AbortSignal.timeout` aborts with an error of this name.
  const isTimeout =
    timeouts.has(code) || (isObject(error) && 'name' in error && error.name === 'TimeoutError');
  return isTimeout
    ? new ProxyError('PROXY_TIMEOUT', 'The proxy does not answer in time', { cause: error })
    : new ProxyError(
        'PROXY_UNREACHABLE',
        `The proxy can not be reached: ${code ?? 'the connection has failed'}`,
        { cause: error },
      );
}

const maxCauses = 5;

/** Returns the `ProxyError` in an error or its causes, because `fetch` wraps errors. */
export function proxyErrorIn(error: unknown): ProxyError | undefined {
  for (let depth = 0, next = error; depth <= maxCauses; depth++) {
    if (next instanceof ProxyError) return next;
    if (!isObject(next) || !('cause' in next)) return undefined;
    next = next.cause;
  }
  return undefined;
}
