import type { QuotaRule } from '../resources/quota-rules.ts';
import type { Group } from './group.ts';
import type { Slot } from './slot.ts';

/** What would become of one more start, or of a resume with a message or a run. */
export type Outlook =
  | { readonly outcome: 'admitted' }
  /** For nobody to be paused: a slot is getting free. */
  | { readonly outcome: 'follows'; readonly rule: QuotaRule }
  /** It waits until this one's pod is gone, which is paused at `at` (milliseconds since 1970) or, where that is past, at once. */
  | { readonly outcome: 'pauses'; readonly rule: QuotaRule; readonly victim: Slot; readonly at: number }
  | { readonly outcome: 'waits'; readonly rule: QuotaRule }
  | { readonly outcome: 'rejected'; readonly rule: QuotaRule };

/** Those who wait for a slot of a group. */
export interface Queue {
  /** With work to do: they come before one more start. */
  readonly demanding: number;
  /** Of those, the ones that could be admitted now. */
  readonly ready: number;
  /** Bare resumes: they come after it. */
  readonly bare: number;
}

/** Those who wait in a group, when no other limit keeps any of them out. */
export const queueOf = ({ demanding, waiting }: Group): Queue => ({ demanding, ready: demanding, bare: waiting.size - demanding });

/** As the limit of this group alone has it, after those who come before it. Pure. */
export function outlookIn(group: Group, { demanding, ready, bare }: Queue = queueOf(group)): Outlook {
  const { rule, limit, taken, holding } = group;
  if (rule === undefined || taken + ready < limit) return { outcome: 'admitted' };
  const before = holding + demanding - limit;
  if (before < 0) {
    // A slot that is getting free was made so for a bare resume, who has another idle one paused instead.
    const displaced = group.makesRoom && before + bare >= 0 ? group.idleVictimAt(before + bare) : undefined;
    return displaced === undefined
      ? { outcome: 'follows', rule }
      : { outcome: 'pauses', rule, victim: displaced, at: group.ripenedAt(displaced) };
  }
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
