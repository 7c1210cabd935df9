import { problems, type ProblemCode } from './catalogue.ts';

export interface FieldError {
  /** Path of the field in the request: `body.initial_message.content[0].text`, `query.limit`. */
  readonly path: string;
  readonly message: string;
}

export interface ProblemOptions extends ErrorOptions {
  readonly errors?: readonly FieldError[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Seconds until the client should retry; sent as the header Retry-After. */
  readonly retryAfterSeconds?: number;
  /** HTTP status that replaces the status of the code in `problems`. */
  readonly status?: number;
  /** The limit of a quota and its current use; absent for errors that no quota causes. */
  readonly usage?: { readonly limit: number; readonly current: number };
}

/** The problem response to a client. `detail` must be safe to show; only the log has the cause. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly code: ProblemCode;
  readonly status: number;
  readonly errors: readonly FieldError[] | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly usage: ProblemOptions['usage'];

  constructor(code: ProblemCode, detail: string, options: ProblemOptions = {}) {
    super(detail, options);
    this.code = code;
    this.status = options.status ?? problems[code].status;
    this.errors = options.errors;
    this.headers =
      options.retryAfterSeconds === undefined
        ? (options.headers ?? {})
        : { ...options.headers, 'retry-after': String(options.retryAfterSeconds) };
    this.usage = options.usage;
  }
}
