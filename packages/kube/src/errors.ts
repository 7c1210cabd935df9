export interface StatusBody {
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string }[];
  };
}

/** A response outside 2xx. `reason` is that of the server's Status: NotFound, Conflict, … */
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
  /** False: no connection got the request. True: the server may have executed the request. */
  readonly sent: boolean;

  constructor(message: string, options?: ErrorOptions & { readonly sent?: boolean }) {
    super(message, options);
    this.sent = options?.sent ?? true;
  }
}

/** The response is larger than `maxBytes`. A retry would get the same response, so none follows. */
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
/** Returns the result of the call; undefined if the server answers 404 NotFound. */
export const found = <T>(call: Promise<T>): Promise<T | undefined> =>
  call.catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
/**
 * Whether the resourceVersion or uid in the request is not the stored one. The API server answers
 * 409, but 422 to a patch with another uid, because the patch would change the field `uid`.
 */
export const isConflict = (error: unknown): error is ApiError =>
  hasReason(409, 'Conflict')(error) || changesUid(error);
const changesUid = (error: unknown): error is ApiError => {
  if (!(error instanceof ApiError) || error.status !== 422) return false;
  const causes = error.body.details?.causes ?? [];
  return causes.length > 0 && causes.every(({ field }) => field === 'metadata.uid');
};
/** Returns the result of a write; undefined if it failed because the object changed or is gone. */
export const unlessChanged = <T>(call: Promise<T>): Promise<T | undefined> =>
  call.catch((error: unknown) => {
    if (isNotFound(error) || isConflict(error)) return undefined;
    throw error;
  });
/** Whether the requested resourceVersion is compacted, so that the caller has to list again. */
export const isExpired = (error: unknown): error is ApiError =>
  error instanceof ApiError &&
  (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone');
/** Whether the API server rejects the object itself, so that a retry would fail too. */
export const isInvalid = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.status === 422 || error.status === 400) && !changesUid(error);
/**
 * Whether the server may have executed, or may yet execute, a write that failed with this error:
 * the server reports a failure of its own (5xx), or the response to a sent request was lost.
 */
export const mayBeExecuted = (error: unknown): error is ApiError | TransportError =>
  error instanceof ApiError ? error.status >= 500 : error instanceof TransportError && error.sent;
export const isForbidden = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.status === 403;
