/** Fault of a call that got no complete response. */
export type CallFault =
  /** No connection: nothing was sent. */
  | 'unreachable'
  /** No complete response in time. */
  | 'timeout'
  /** The signal of the caller was aborted. */
  | 'aborted'
  /** The connection broke after the request had been sent. */
  | 'connection-lost'
  /** The body is larger than the caller permits. */
  | 'too-large'
  /** The body came in chunks of a few bytes. */
  | 'too-fragmented';

/** A call without a complete response. The cause is for logs. */
export class CallError extends Error {
  override readonly name = 'CallError';
  readonly fault: CallFault;

  constructor(fault: CallFault, options?: ErrorOptions) {
    super(`call: ${fault}`, options);
    this.fault = fault;
  }
}
