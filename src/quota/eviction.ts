import type { QuotaRule } from './rules.ts';
import { byName, type Slot, type SlotOrder } from './slot.ts';

// For each waiting sandbox that gets a slot, a quota evicts the first sandbox in this order:
//
// 1. Warm sandboxes, the oldest first, under every policy (`evictWarmSandbox` in decide.ts).
// 2. Stalled sandboxes, which are admitted and whose agent has not answered until `stalledAt`.
// 3. Sandboxes that were resumed automatically and that no person has used since.
// 4. All other sandboxes that are not in step 5.
// 5. Sandboxes whose agent waits for a confirmation.
//
// Within a step, `PauseLongestIdle` compares the idle times: the longest comes first. After that,
// and under `PauseOldest`, the sandbox that is active for longest comes first, then the first by
// name. A sandbox is never evicted before it is active for `minActiveSeconds`, nor during a start
// that is not stalled. A resume without work evicts only idle sandboxes.

export const mayBeEvicted = ({ state, stalledAt }: Slot): boolean =>
  state === 'running' || (state === 'starting' && stalledAt < Infinity);

/**
 * Time from which a slot may be evicted under a rule, in milliseconds since 1970: the end of its
 * minimum active time, or the time from which it is stalled. Infinity: never.
 */
export function evictableAt(slot: Slot, rule: QuotaRule | undefined): number {
  if (slot.state === 'starting') return slot.stalledAt;
  return slot.state === 'running' ? slot.activeSince + (rule?.minActiveMs ?? 0) : Infinity;
}

/** Rank in the steps 2 to 5 above. Only a stalled sandbox can have the state `starting` here. */
const evictionRank = ({ state, automatic, confirming }: Slot): number => {
  if (state === 'starting') return 0;
  if (confirming) return 3;
  return automatic ? 1 : 2;
};
const byStart: SlotOrder = (one, other) =>
  one.activeSince - other.activeSince || byName(one, other);
const byIdleTime: SlotOrder = (one, other) =>
  one.idleSince === other.idleSince ? 0 : one.idleSince - other.idleSince;

/** The order among slots that may be evicted now: by `evictionRank`, then by policy. */
export function byRank(rule: QuotaRule | undefined): SlotOrder {
  const isIdlenessFirst = rule?.onExceeded === 'PauseLongestIdle';
  return (one, other) =>
    evictionRank(one) - evictionRank(other) ||
    (isIdlenessFirst ? byIdleTime(one, other) : 0) ||
    byStart(one, other);
}

/**
 * The order of evictions under a rule: first the slots that may be evicted now, then the others in
 * the order of `evictableAt`.
 */
export function byEviction(rule: QuotaRule | undefined, now: number): SlotOrder {
  const amongRipe = byRank(rule);
  return (one, other) => {
    const [ofOne, ofOther] = [evictableAt(one, rule), evictableAt(other, rule)];
    if (ofOne <= now && ofOther <= now) return amongRipe(one, other);
    return Math.max(now, ofOne) - Math.max(now, ofOther) || byName(one, other);
  };
}
