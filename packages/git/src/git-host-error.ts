import { ProxyError } from '@conversation-operator/outward/proxy-error';
import { isNotConnected, systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * The failure of a request to a git host. `reason` is one word, that of a proxy begins with PROXY_,
 * and the error discloses nothing about the address of the host.
 */
export class GitHostError extends Error {
  override readonly name = 'GitHostError';
  readonly reason: string;
  /** The status of the answer; undefined where the host gave none. */
  readonly status: number | undefined;

  /** Whether no connection was established: another request would fail too. */
  get isUnreachable(): boolean {
    return (
      isNotConnected(this.cause) || this.cause instanceof ProxyError || this.reason === 'ETIMEDOUT'
    );
  }

  constructor(
    reason: string,
    { status, ...options }: ErrorOptions & { readonly status?: number } = {},
  ) {
    super(`A git host can not be asked: ${reason}.`, options);
    this.reason = reason;
    this.status = status;
  }
}

/** The error of a request without an answer. */
export function gitHostErrorOf(error: unknown, signal: AbortSignal): GitHostError {
  if (signal.aborted) return new GitHostError('timeout', { cause: error });
  const code = systemCodeOf(error) ?? '';
  return new GitHostError(/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'connection', { cause: error });
}
