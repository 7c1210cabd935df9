export interface StatusBody {
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string }[];
  };
}

/** A response other than success. `reason` is the server's: NotFound, Conflict, Expired, … */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly reason: string;
  readonly body: StatusBody;
  readonly retryAfterMs: number | undefined;

  constructor(
    status: number,
    body: StatusBody,
    options?: ErrorOptions & { readonly retryAfterMs?: number | undefined },
  ) {
    super(body.message ?? `API server answered ${status}`, options);
    this.status = status;
    this.reason = body.reason ?? '';
    this.body = body;
    this.retryAfterMs =
      options?.retryAfterMs ??
      (body.details?.retryAfterSeconds === undefined
        ? undefined
        : body.details.retryAfterSeconds * 1000);
  }
}

/** No complete response arrived: the connection was refused, reset, timed out or closed early. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  /** False: no connection got the request. True: the server may have executed the write. */
  readonly sent: boolean;

  constructor(message: string, options?: ErrorOptions & { readonly sent?: boolean }) {
    super(message, options);
    this.sent = options?.sent ?? true;
  }
}

/** The response exceeds the limit. No retry, because the next response would be as large. */
export class ResponseTooLargeError extends TransportError {
  constructor(maxBytes: number) {
    super(`the response is larger than ${maxBytes} bytes`);
  }
}

/** Cause of a TransportError when the deadline of the call has passed. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
}

const hasReason =
  (status: number, reason: string) =>
  (error: unknown): error is ApiError =>
    error instanceof ApiError &&
    error.status === status &&
    (error.reason === reason || error.reason === '');

export const isNotFound = hasReason(404, 'NotFound');
export const isAlreadyExists = hasReason(409, 'AlreadyExists');
/** Returns the result of a call about an object; undefined when there is no such object. */
export const found = <T>(call: Promise<T>): Promise<T | undefined> =>
  call.catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
/**
 * The given resourceVersion or uid is not the stored one. The API server answers 409, but 422 to a
 * patch with another object's uid: to the server the patch changes the field.
 */
export const isConflict = (error: unknown): error is ApiError =>
  hasReason(409, 'Conflict')(error) || changesUid(error);
const changesUid = (error: unknown): error is ApiError => {
  if (!(error instanceof ApiError) || error.status !== 422) return false;
  const causes = error.body.details?.causes ?? [];
  return causes.length > 0 && causes.every(({ field }) => field === 'metadata.uid');
};
/** Returns a write's result; undefined if the object changed or is gone, which a watch reports. */
export const unlessChanged = <T>(call: Promise<T>): Promise<T | undefined> =>
  call.catch((error: unknown) => {
    if (isNotFound(error) || isConflict(error)) return undefined;
    throw error;
  });
/** The requested version has been compacted, and the caller has to list again. */
export const isExpired = (error: unknown): error is ApiError =>
  error instanceof ApiError &&
  (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone');
/** The API server rejects the object itself, so a retry would fail too. */
export const isInvalid = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.status === 422 || error.status === 400) && !changesUid(error);
/**
 * Whether a write that failed like this may have been, or may yet be, executed: the server reports
 * its own failure, as a time-out of its storage, or the response to a sent request is lost.
 */
export const mayBeExecuted = (error: unknown): error is ApiError | TransportError =>
  error instanceof ApiError ? error.status >= 500 : error instanceof TransportError && error.sent;
export const isForbidden = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.status === 403;
