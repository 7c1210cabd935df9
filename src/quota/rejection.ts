import type { Decision } from './decision.ts';
import type { LimitGroup } from './limit-group.ts';
import type { OwnerGroups } from './owner-groups.ts';

const rejectionIn = ({ waiting: { last: slot }, rule, taken }: LimitGroup): Decision | undefined =>
  slot === undefined || rule === undefined
    ? undefined
    : { kind: 'reject', slot, rule, current: taken };

/** Rejects the last newcomer where the policy Reject lets no more of them wait. */
export function reject(all: LimitGroup, { rejecting, totals }: OwnerGroups): Decision | undefined {
  for (const owner of rejecting) return rejectionIn(owner);
  const demand = totals.demand + totals.bareDemand;
  return all.rule?.onExceeded === 'Reject' && demand > 0 && all.isFullFor(demand)
    ? rejectionIn(all)
    : undefined;
}

const failureIn = ({ overCap: slot, cap, stored }: LimitGroup): Decision | undefined =>
  slot === undefined || cap === undefined
    ? undefined
    : { kind: 'fail', slot, cap, current: stored - 1 };

/** Fails the last undecided sandbox above `maxSandboxes`. */
export function failOverCap(all: LimitGroup, { overCap }: OwnerGroups): Decision | undefined {
  for (const owner of overCap) return failureIn(owner);
  return failureIn(all);
}
