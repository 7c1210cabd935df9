import { systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * - PROXY_AUTHENTICATION: the proxy demands (other) credentials (407).
 * - PROXY_REFUSED: the proxy does not connect to the host (403 and others).
 * - PROXY_GATEWAY: the proxy does not reach the host (5xx).
 * - PROXY_UNREACHABLE: no connection to the proxy, or one whose certificate is not trusted.
 * - PROXY_TIMEOUT: the proxy has not answered in time.
 */
export type ProxyErrorCode =
  | 'PROXY_AUTHENTICATION'
  | 'PROXY_REFUSED'
  | 'PROXY_GATEWAY'
  | 'PROXY_UNREACHABLE'
  | 'PROXY_TIMEOUT';

/** A request failed at the proxy, so its host received nothing. Names no address or credential. */
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
  // The error of an aborted `AbortSignal.timeout` has this name.
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

/** Finds a proxy's error in an error or its causes, because `fetch` wraps it. */
export function proxyErrorIn(error: unknown): ProxyError | undefined {
  for (let depth = 0, next = error; depth <= maxCauses; depth++) {
    if (next instanceof ProxyError) return next;
    if (!isObject(next) || !('cause' in next)) return undefined;
    next = next.cause;
  }
  return undefined;
}
