import { errors } from 'undici';

/** Fault of a forwarded request: `malformed` where the upstream could not have read it. */
export type UpstreamFault = 'timeout' | 'unreachable' | 'malformed';

/** An upstream gave no usable response. The cause is for logs. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly fault: UpstreamFault;

  constructor(fault: UpstreamFault, cause?: unknown) {
    super(`upstream: ${fault}`, { cause });
    this.fault = fault;
  }
}

/** Classifies an error of undici. */
export function upstreamErrorOf(error: unknown): UpstreamError {
  if (error instanceof errors.ConnectTimeoutError || error instanceof errors.HeadersTimeoutError)
    return new UpstreamError('timeout', error);
  if (error instanceof errors.InvalidArgumentError || error instanceof errors.NotSupportedError)
    return new UpstreamError('malformed', error);
  return new UpstreamError('unreachable', error);
}
