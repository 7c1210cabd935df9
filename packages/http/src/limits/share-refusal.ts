import type { Bound } from '@conversation-operator/kube/shares';
import { Refusal } from '../refusal.ts';

const headers = { 'retry-after': '1' };

/**
 * Returns the refusal of a request that finds no place in a pool: among those of its owner, or
 * among all of them.
 * @param what The work that finds none, in plural and lower case: `streams`.
 */
export const shareRefusal = (bound: Bound, what: string): Refusal =>
  bound === 'owner'
    ? new Refusal(
        'share-exceeded',
        `Too many ${what} of yours are under way. Try again when some of them are over.`,
        { headers },
      )
    : new Refusal(
        'overloaded',
        `The service has too many ${what} under way at the moment. Try again.`,
        { headers },
      );
