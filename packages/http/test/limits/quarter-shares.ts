import { Shares } from '@conversation-operator/base/shares';
import { Refusal } from '../../src/refusal.ts';

/** A pool of which one owner gets a quarter; a refusal of more ends the connection. */
export const quarterShares = (total: number): Shares =>
  new Shares({
    total,
    perOwner: Math.ceil(total / 4),
    refuse: (bound) =>
      new Refusal(bound === 'owner' ? 'share-exceeded' : 'overloaded', 'Too much.', {
        headers: { 'retry-after': '1', connection: 'close' },
      }),
  });
