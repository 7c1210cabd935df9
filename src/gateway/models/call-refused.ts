import type { RefusalKind } from '../../models/apis/refusals.ts';

/** A call that the relay answers itself, in the shape of the API that was called. */
export class CallRefused extends Error {
  override readonly name = 'CallRefused';
  readonly kind: RefusalKind;
  readonly retryAfterSeconds: number | undefined;

  /** @param message Shown to the agent, and by most agents to their users. */
  constructor(
    kind: RefusalKind,
    message: string,
    { retryAfterSeconds, ...options }: ErrorOptions & { readonly retryAfterSeconds?: number } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
