import { ApiError, TransportError, isExpired } from './errors.ts';

/** Reason why a list or a watch starts over, a label of metrics. */
export type RestartCause = 'timeout' | 'short' | 'expired' | 'silent' | 'connection' | 'refused';

/** The end of a watch other than the end of its timeout. */
export class WatchFailure extends Error {
  override readonly name = 'WatchFailure';
  readonly reason: RestartCause;
  /** Version to continue from. Undefined: the reflector has to list. */
  readonly resumeFrom: string | undefined;

  constructor(reason: RestartCause, resumeFrom: string | undefined, cause: unknown) {
    super(`watch failed: ${reason}`, { cause });
    this.reason = reason;
    this.resumeFrom = resumeFrom;
  }
}

/**
 * A lost connection or an overloaded server leaves the reached version valid; any other error may
 * not.
 */
export function watchFailure(error: unknown, resourceVersion: string): WatchFailure {
  if (isExpired(error)) return new WatchFailure('expired', undefined, error);
  if (error instanceof TransportError)
    return new WatchFailure('connection', resourceVersion, error);
  const isTransient = error instanceof ApiError && (error.status === 429 || error.status >= 500);
  return new WatchFailure('refused', isTransient ? resourceVersion : undefined, error);
}
