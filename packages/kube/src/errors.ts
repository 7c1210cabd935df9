/** The body of a Kubernetes `Status` answer, as far as it is read. */
export interface StatusBody {
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly field?: string; readonly message?: string }[];
  };
}

/** An answer of the API server that is not a success. `reason` is the server's own word: NotFound, Conflict, AlreadyExists, Expired, … */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly reason: string;
  readonly body: StatusBody;
  readonly retryAfterMs: number | undefined;

  constructor(status: number, body: StatusBody, options?: ErrorOptions & { readonly retryAfterMs?: number | undefined }) {
    super(body.message ?? `API server answered ${status}`, options);
    this.status = status;
    this.reason = body.reason ?? '';
    this.body = body;
    this.retryAfterMs =
      options?.retryAfterMs ?? (body.details?.retryAfterSeconds === undefined ? undefined : body.details.retryAfterSeconds * 1000);
  }
}

/** No answer: refused, reset, timed out, or cut short. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  /** False: nothing was handed to a connection, so nothing was executed. True: whether a write was executed is not known. */
  readonly sent: boolean;

  constructor(message: string, options?: ErrorOptions & { readonly sent?: boolean }) {
    super(message, options);
    this.sent = options?.sent ?? true;
  }
}

/** The answer has more bytes than the call allows. Not repeated: it would be as large again. */
export class AnswerTooLargeError extends TransportError {
  constructor(maxBytes: number) {
    super(`the answer is larger than ${maxBytes} bytes`);
  }
}

/** The cause of a TransportError where the time of the call was over. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
}

const hasReason =
  (status: number, reason: string) =>
  (error: unknown): error is ApiError =>
    error instanceof ApiError && error.status === status && (error.reason === reason || error.reason === '');

export const isNotFound = hasReason(404, 'NotFound');
export const isAlreadyExists = hasReason(409, 'AlreadyExists');
/** The resourceVersion or uid given is not the stored one any more. */
export const isConflict = hasReason(409, 'Conflict');
/** The version asked for has been compacted away: list again. */
export const isExpired = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone');
/** The object itself is refused, and will be again. */
export const isInvalid = (error: unknown): error is ApiError => error instanceof ApiError && (error.status === 422 || error.status === 400);
export const isForbidden = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 403;
