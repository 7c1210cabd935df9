import { shareRefusal } from '@conversation-operator/http/limits/share-refusal';
import type { Refusal } from '@conversation-operator/http/refusal';
import type { Bound } from '@conversation-operator/kube/shares';
import { ProblemError } from '../errors/problem-error.ts';

/**
 * Returns the error of a request that finds no place in a pool, or among the calls to one agent.
 * @param what The work that finds none, in plural and lower case: `event reads`.
 */
export const shareProblem = (bound: Bound, what: string): ProblemError | Refusal =>
  bound === 'sandbox'
    ? new ProblemError('agent-busy', `Too many ${what} wait for this agent. Try again.`, {
        headers: { 'retry-after': '1' },
      })
    : shareRefusal(bound, what);
