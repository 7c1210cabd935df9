import { hasRefused, isExhausted } from '../../quota/budgets.ts';
import type { UsageCounters } from '../../resources/usage-record.ts';
import { kebabCase } from '../../resources/owner-remedies.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { presentBudget, type OwnBudget } from '../quota/usage.ts';
import { wireTime } from '../presenters/schemas.ts';
import { shortText } from './present.ts';
import { maxItems, type OverviewRecord } from './schemas.ts';

type Spending = Pick<OverviewRecord, 'spending' | 'exhausted_budgets'>;
type Spender = OverviewRecord['spending']['items'][number];
type SpendingLookup = Pick<ResourceLookup, 'usageRecords' | 'budgetsOf' | 'everyHolding'>;

const bySpending = (one: Spender, other: Spender): number =>
  other.cost - one.cost || other.calls - one.calls || (one.owner < other.owner ? -1 : 1);

const spenderOf = (owner: string, sums: UsageCounters): Spender => ({
  owner,
  calls: sums.calls,
  input_tokens: sums.inputTokens,
  output_tokens: sums.outputTokens,
  cost: Number(sums.cost),
});

/**
 * The spending of each owner in this month in UTC, and the budgets that are used up: those for
 * which new starts of an owner are refused or wait. Budgets of owners without a call in this month
 * or the one before are not among them: nobody uses them.
 */
export function spendingOf(lookup: SpendingLookup, nowMs: number): Spending {
  const month = new Date(nowMs).toISOString().slice(0, 'YYYY-MM'.length);
  const owners = new Set<string>();
  const spenders: Spender[] = [];
  for (const { spec, status } of lookup.usageRecords()) {
    if (spec.owner === undefined) continue;
    owners.add(spec.owner);
    if (spec.month === month && status?.totals !== undefined)
      spenders.push(spenderOf(spec.owner, status.totals));
  }
  const refused = lookup
    .everyHolding()
    .conversations.filter(({ status }) => status?.budgetExhaustion !== undefined);
  const refusedOf = Map.groupBy(refused, ({ spec }) => spec.owner);
  const isUsedUp = (owner: string, budget: OwnBudget): boolean => {
    const own = budget.quota.scope === 'Owner' ? (refusedOf.get(owner) ?? []) : refused;
    const refusals = own.map(({ status }) => status?.budgetExhaustion);
    return isExhausted(budget.use, hasRefused(budget, budget.use, refusals));
  };
  const exhausted = (owner: string, scope: OwnBudget['quota']['scope']) =>
    lookup
      .budgetsOf(owner, nowMs)
      .filter((budget) => budget.quota.scope === scope && isUsedUp(owner, budget))
      .map((budget) => ({ owner: scope === 'Owner' ? owner : null, ...presentBudget(budget) }));
  const budgets = [
    // The budgets of the namespace hold for every owner.
    ...exhausted('', 'Namespace'),
    ...[...owners].sort().flatMap((owner) => exhausted(owner, 'Owner')),
  ];
  return {
    spending: { total: spenders.length, items: spenders.sort(bySpending).slice(0, maxItems) },
    exhausted_budgets: { total: budgets.length, items: budgets.slice(0, maxItems) },
  };
}

type UpstreamError = OverviewRecord['upstream_errors']['items'][number];

/** The failures of providers that the relay has counted in this month in UTC and in the last one. */
export function upstreamErrorsOf(
  lookup: Pick<SpendingLookup, 'usageRecords'>,
  nowMs: number,
): OverviewRecord['upstream_errors'] {
  const today = new Date(nowMs).toISOString().slice(0, 'YYYY-MM-DD'.length);
  const records = lookup
    .usageRecords()
    .filter(({ spec }) => spec.scope === 'Namespace')
    .toSorted((one, other) => ((one.spec.month ?? '') < (other.spec.month ?? '') ? -1 : 1))
    .slice(-2);
  const errors = new Map<string, UpstreamError>();
  for (const { status } of records)
    for (const { host, kind, lastDay, countOfLastDay, lastTime, message } of status?.upstreams ??
      [])
      errors.set(`${kind} ${host}`, {
        provider: shortText(host),
        kind: kebabCase(kind),
        today: lastDay === today ? countOfLastDay : 0,
        last_at: wireTime(lastTime),
        message: shortText(message),
      });
  const items = [...errors.values()].sort((one, other) => (one.last_at > other.last_at ? -1 : 1));
  return { total: items.length, items: items.slice(0, maxItems) };
}
