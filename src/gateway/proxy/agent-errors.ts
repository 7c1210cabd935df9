import { errors } from 'undici';
import { ProblemError } from '../errors/problem-error.ts';

const retryAfter = { 'retry-after': '1' };

export const unauthorized = () =>
  new ProblemError('unauthorized', 'The session key is missing or not valid.');

export const agentTimeout = (cause?: unknown) =>
  new ProblemError('agent-timeout', 'The agent did not answer in time.', {
    headers: retryAfter,
    cause,
  });

export const agentUnreachable = (cause?: unknown) =>
  new ProblemError('agent-unreachable', 'The agent can not be reached at the moment.', {
    headers: retryAfter,
    cause,
  });

/** The problem of a request that failed on its way to the agent. */
export function agentProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof errors.ConnectTimeoutError || error instanceof errors.HeadersTimeoutError)
    return agentTimeout(error);
  if (error instanceof errors.InvalidArgumentError || error instanceof errors.NotSupportedError) {
    return new ProblemError('malformed-request', 'The request could not be read.', {
      cause: error,
    });
  }
  return agentUnreachable(error);
}

const closedCodes: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * Whether an open connection was closed before the agent had answered, as happens when the agent
 * closes an idle one at that moment.
 */
export const isClosedConnection = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && closedCodes.has(error.code);
