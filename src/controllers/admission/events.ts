import type { Decision } from '../../quota/decide.ts';
import { waitingReasonOf } from '../../quota/classify.ts';
import type { Slot } from '../../quota/slot.ts';
import { CapExceeded } from '../../quota/caps.ts';
import { subjectOf } from './decided-sandbox.ts';

/** An Event that reports a decision. */
export interface DecisionEvent {
  readonly about: Slot;
  readonly reason: string;
  readonly message: string;
}

const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/**
 * The Events of a decision; an eviction has one for the victim and one for the preemptor. `message`
 * is that of the condition Admitted.
 */
export function eventsOf(decision: Decision, message: string): readonly DecisionEvent[] {
  const { slot: about } = decision;
  const one = (reason: string, text = message) => [{ about, reason, message: text }];
  switch (decision.kind) {
    case 'release':
      return [];
    case 'admit':
      return decision.resumed
        ? one('ResumedByQuota', 'The sandbox resumes automatically: there is room again.')
        : [];
    case 'wait':
      return one(waitingReasonOf(about));
    case 'reject':
      return one('QuotaExceeded');
    case 'fail':
      return one(CapExceeded.maxSandboxes);
    case 'expire':
      return one(decision.reason);
    case 'evict': {
      const { preemptor, rule } = decision;
      const eviction = one('PausedByQuota');
      if (preemptor === undefined) return eviction;
      const paused =
        preemptor.owner === about.owner
          ? capitalised(subjectOf(about.sandbox))
          : 'A conversation of another owner';
      return [
        ...eviction,
        {
          about: preemptor,
          reason: 'RoomMade',
          message: `${paused} is paused to make room; limit ${rule.limit}.`,
        },
      ];
    }
  }
}
