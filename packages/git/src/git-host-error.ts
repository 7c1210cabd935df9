import { systemCodeOf } from '@conversation-operator/base/system-code';

/** Errors of attempts to connect. Nothing was sent, and another request would fail too. */
const notConnected: ReadonlySet<string> = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/**
 * The failure of a request to a git host. `reason` is one word, and the error discloses nothing
 * about the address of the host.
 */
export class GitHostError extends Error {
  override readonly name = 'GitHostError';
  readonly reason: string;
  /** The status of the answer; undefined where the host gave none. */
  readonly status: number | undefined;

  /** Whether no connection was established. */
  get isUnreachable(): boolean {
    return notConnected.has(this.reason);
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
