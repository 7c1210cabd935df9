import { proxyErrorIn } from '@conversation-operator/outward/proxy-error';
import { systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * - denied: the credentials do not allow the call, or there are none.
 * - missing: the bucket or the folder does not exist.
 * - invalid: the store rejects the request, and will do so again.
 * - throttled: the store limits the requests.
 * - unavailable: the store can not be reached, has failed, or has no space.
 * - timeout: the store has not answered in time. A write may take effect later.
 */
export type StoreErrorCode =
  'denied' | 'missing' | 'invalid' | 'throttled' | 'unavailable' | 'timeout';

/** Error of a store. The message contains neither credentials nor bytes of an object. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The error of a call without a whole answer; the message says whether a proxy has failed. */
export function unreachable(subject: string, error: unknown): StoreError {
  const proxyError = proxyErrorIn(error);
  const reason = proxyError?.message ?? systemCodeOf(error) ?? 'the connection has failed';
  return new StoreError('unavailable', `${subject} can not be reached: ${reason}`, {
    cause: error,
  });
}
