import type { QuotaRule } from '../resources/quota-rules.ts';
import type { Group } from './group.ts';
import type { Slot } from './slot.ts';

/** What would become of one more newcomer. */
export type Outlook =
  | { readonly outcome: 'admitted' }
  /** For nobody to be paused: a slot is getting free. */
  | { readonly outcome: 'follows'; readonly rule: QuotaRule }
  /** It waits until this one's pod is gone, which is paused at `at` (milliseconds since 1970) or, where that is past, at once. */
  | { readonly outcome: 'pauses'; readonly rule: QuotaRule; readonly victim: Slot; readonly at: number }
  | { readonly outcome: 'waits'; readonly rule: QuotaRule }
  | { readonly outcome: 'rejected'; readonly rule: QuotaRule };

/** As the limit of this group alone has it, after as many others as are `ahead`, of whom only `ready` could be admitted now. Pure. */
export function outlookIn(group: Group, ahead = group.waiting.size, ready = ahead): Outlook {
  const { rule, limit, taken, holding } = group;
  if (rule === undefined || taken + ready < limit) return { outcome: 'admitted' };
  const before = holding + ahead - limit;
  if (before < 0) return { outcome: 'follows', rule };
  if (rule.onExceeded === 'Reject') return { outcome: 'rejected', rule };
  // Those that are paused for others, or because the limit was lowered, are paused first.
  const victim = group.makesRoom ? group.victimAt(before) : undefined;
  return victim === undefined ? { outcome: 'waits', rule } : { outcome: 'pauses', rule, victim, at: group.ripenedAt(victim) };
}

/** An owner's own limit first: who has to wait for that, or has room made for it there, asks nothing of the others yet. */
export function tighterOf(owner: Outlook, namespace: Outlook): Outlook {
  const asksOthers = owner.outcome === 'admitted' || (owner.outcome === 'follows' && namespace.outcome !== 'admitted');
  return asksOthers ? namespace : owner;
}
