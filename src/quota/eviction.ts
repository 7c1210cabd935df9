import type { Decision } from './decision.ts';
import type { LimitGroup } from './limit-group.ts';
import type { OwnerGroups } from './owner-groups.ts';
import type { Slot } from './slot.ts';

const evictionOf = (
  { rule }: LimitGroup,
  slot: Slot | undefined,
  preemptor: Slot | undefined,
): Decision | undefined =>
  slot === undefined || rule === undefined ? undefined : { kind: 'evict', slot, rule, preemptor };

/**
 * The next eviction for newcomers with work to do, or for a limit that was lowered. While the
 * namespace keeps newcomers waiting and makes no room, an owner's newcomers evict nothing: the slot
 * would go to the newcomer that has waited longest.
 */
export function evict(
  all: LimitGroup,
  { overLimit, crowded, totals }: OwnerGroups,
): Decision | undefined {
  for (const owner of overLimit.size > 0 || all.isFullFor(totals.demand) ? overLimit : crowded) {
    const eviction = evictionOf(owner, owner.victim, owner.preemptor);
    if (eviction !== undefined) return eviction;
  }
  return all.excess(totals.demand) > 0
    ? evictionOf(all, all.victim, totals.demand > 0 ? all.preemptor : undefined)
    : undefined;
}

/**
 * The next eviction for a bare resume, which evicts only idle sandboxes and comes after the
 * newcomers with work to do.
 */
export function evictIdle(
  all: LimitGroup,
  { bareCrowded, totals }: OwnerGroups,
): Decision | undefined {
  const demand = totals.demand + totals.bareDemand;
  for (const owner of all.isFullFor(demand) ? [] : bareCrowded) {
    const eviction = evictionOf(owner, owner.idleVictim, owner.preemptor);
    if (eviction !== undefined) return eviction;
  }
  return all.excess(demand) > 0 ? evictionOf(all, all.idleVictim, all.preemptor) : undefined;
}
