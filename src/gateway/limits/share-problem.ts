import { ProblemError } from '../errors/problem-error.ts';
import type { Bound } from '@conversation-operator/kube/shares';

const headers = { 'retry-after': '1' };

/**
 * Returns the problem for a request that finds no place in a pool.
 * @param what The work that finds none, in plural and lower case: `event reads`.
 */
export function shareProblem(bound: Bound, what: string): ProblemError {
  switch (bound) {
    case 'sandbox':
      return new ProblemError('agent-busy', `Too many ${what} wait for this agent. Try again.`, {
        headers,
      });
    case 'owner':
      return new ProblemError(
        'share-exceeded',
        `Too many ${what} of yours are under way. Try again when some of them are over.`,
        {
          headers,
        },
      );
    case 'total':
      return new ProblemError(
        'overloaded',
        `The service has too many ${what} under way at the moment. Try again.`,
        { headers },
      );
  }
}
