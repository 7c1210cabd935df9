import type { UpstreamError } from '@conversation-operator/http/proxy/upstream';
import { ProblemError } from '../errors/problem-error.ts';

export const unauthorized = () =>
  new ProblemError('unauthorized', 'The session key is missing or not valid.');

/** The refusal of a contained request, whose sender is known. */
export const notOpened = () =>
  new ProblemError('forbidden', 'The session key in the request is missing or not valid.');

export const agentTimeout = (cause?: unknown) =>
  new ProblemError('agent-timeout', 'The agent did not answer in time.', {
    retryAfterSeconds: 1,
    cause,
  });

/** The problem of a request that failed on its way to the agent. */
export function agentProblem({ fault, cause }: UpstreamError): ProblemError {
  switch (fault) {
    case 'timeout':
      return agentTimeout(cause);
    case 'unreachable':
      return new ProblemError('agent-unreachable', 'The agent can not be reached at the moment.', {
        retryAfterSeconds: 1,
        cause,
      });
    case 'malformed':
      return new ProblemError('malformed-request', 'The request could not be read.', { cause });
  }
}
