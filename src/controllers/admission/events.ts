import { CapExceeded } from '../../resources/cap-exceeded.ts';
import { nameOf } from './decided-status.ts';
import type { Decision } from '../../quota/decision.ts';
import { waitingReasonOf, type Slot } from '../../quota/slot.ts';

/** What somebody is told of a decision, as an Event. */
export interface DecisionEvent {
  readonly slot: Slot;
  readonly reason: string;
  readonly message: string;
}

const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** Tells both sides: whom it was taken from, and whom it was taken for. `message` is what the condition Admitted says. */
export function eventsOf(step: Decision, message: string): readonly DecisionEvent[] {
  const { slot } = step;
  switch (step.kind) {
    case 'release':
      return [];
    case 'admit':
      return step.resumed ? [{ slot, reason: 'ResumedByQuota', message: 'Comes back by itself: there is room again.' }] : [];
    case 'wait':
      return [{ slot, reason: waitingReasonOf(slot), message }];
    case 'reject':
      return [{ slot, reason: 'QuotaExceeded', message }];
    case 'fail':
      return [{ slot, reason: CapExceeded.maxSandboxes, message }];
    case 'expire':
      return [{ slot, reason: step.reason, message }];
    case 'evict': {
      const { preemptor: beneficiary, rule } = step;
      const victim = { slot, reason: 'PausedByQuota', message };
      if (beneficiary === undefined) return [victim];
      const paused = beneficiary.owner === slot.owner ? capitalised(nameOf(slot.sandbox)) : 'A conversation of another owner';
      return [victim, { slot: beneficiary, reason: 'RoomMade', message: `${paused} is paused to make room; limit ${rule.limit}.` }];
    }
  }
}
