import { amountOf, storedAmount, sumOf } from '../budget/money.ts';
import { accountKey, isTimeZone, type Period, type Periods } from '../budget/period.ts';
import type { Budget } from '../budget/ledger.ts';
import type { ConversationQuota, ConversationQuotaSpec } from '../resources/conversation-quota.ts';
import type { BudgetExhaustion } from '../resources/conversation-status.ts';
import {
  usageRecordNameOf,
  usageRecordSpecOf,
  type CachedUsageRecord,
  type UsageSubject,
} from '../resources/usage-record.ts';

type BudgetSpec = NonNullable<ConversationQuotaSpec['budget']>;

/** The budget of one quota. */
export interface QuotaBudget extends BudgetSpec {
  readonly quotaName: string;
  readonly scope: ConversationQuotaSpec['scope'];
}

/** The budgets of a namespace, by scope and owner, each list in the order of the quotas' names. */
export interface QuotaBudgets {
  readonly namespace: readonly QuotaBudget[];
  readonly everyOwner: readonly QuotaBudget[];
  readonly owners: ReadonlyMap<string, readonly QuotaBudget[]>;
}

/** Whether periods can begin in the zone of the budget. */
export const hasKnownZone = ({ timeZone }: Pick<BudgetSpec, 'timeZone'>): boolean =>
  isTimeZone(timeZone);

export function quotaBudgets(quotas: readonly ConversationQuota[]): QuotaBudgets {
  const all = quotas
    .flatMap(({ metadata: { name }, spec: { budget, scope, owner } }) =>
      budget === undefined ? [] : [{ owner, budget: { ...budget, quotaName: name, scope } }],
    )
    .sort((one, other) => (one.budget.quotaName < other.budget.quotaName ? -1 : 1));
  const listOf = (scope: QuotaBudget['scope'], wanted: string | undefined) =>
    all
      .filter(({ budget, owner }) => budget.scope === scope && owner === wanted)
      .map(({ budget }) => budget);
  const named = new Set(all.map(({ owner }) => owner).filter((owner) => owner !== undefined));
  return {
    namespace: listOf('Namespace', undefined),
    everyOwner: listOf('Owner', undefined),
    owners: new Map([...named].map((owner) => [owner, listOf('Owner', owner)])),
  };
}

/**
 * The budgets that each call of an owner has to fit into: those of the owner's own quotas, or else
 * those for every owner; and those of the namespace. Several quotas for the same all hold, because
 * amounts of different units and periods can not be compared.
 */
export const budgetsOf = (budgets: QuotaBudgets, owner: string): readonly QuotaBudget[] => [
  ...(budgets.owners.get(owner) ?? budgets.everyOwner),
  ...budgets.namespace,
];

/** A budget of a quota in one period, and its account in a UsageRecord. */
export interface BudgetAccount extends Budget {
  readonly quota: QuotaBudget;
  readonly startsAtMs: number;
  readonly endsAtMs: number;
}

/** Returns the period in UTC if the zone is unknown. A check of the zone first would be slow. */
function periodOf({ period, timeZone }: QuotaBudget, atMs: number, periods: Periods): Period {
  try {
    return periods.around(period, timeZone, atMs);
  } catch (error) {
    if (error instanceof RangeError) return periods.around(period, 'UTC', atMs);
    throw error;
  }
}

/**
 * The account of a budget at an instant. A period that begins in one month and ends in another one
 * has its account in the record of the month in which it begins. Where the zone is unknown, UTC
 * applies.
 */
export function accountOf(
  quota: QuotaBudget,
  {
    namespace,
    owner,
    nowMs,
  }: { readonly namespace: string; readonly owner: string; readonly nowMs: number },
  periods: Periods,
): BudgetAccount {
  const { quotaName, scope, amount, currency: unit } = quota;
  const period = periodOf(quota, nowMs, periods);
  const month = period.firstDay.slice(0, 'YYYY-MM'.length);
  const subject: UsageSubject = scope === 'Namespace' ? { month } : { owner, month };
  return {
    quota,
    record: { namespace, name: usageRecordNameOf(subject), spec: usageRecordSpecOf(subject) },
    account: accountKey(quotaName, period, unit),
    unit,
    limit: amountOf(amount, unit),
    startsAtMs: period.startMs,
    endsAtMs: period.endMs,
  };
}

/** The use of a budget in nanos of a US dollar, or in tokens. */
export interface BudgetUse {
  /** The limit with what people have added. */
  readonly limit: number;
  /** Settled calls. */
  readonly spent: number;
  /** Amount that replicas of the gateway hold for calls, beyond that. */
  readonly reserved: number;
}

/** The use of a budget, as the record shows it. */
export function useOf(
  { account: key, unit, limit }: Pick<Budget, 'account' | 'unit' | 'limit'>,
  record: Pick<CachedUsageRecord, 'status'> | undefined,
): BudgetUse {
  const account = record?.status?.accounts?.find((each) => each.key === key);
  if (account === undefined) return { limit, spent: 0, reserved: 0 };
  const amount = (text: string): number => storedAmount(text, unit);
  const { spent, raised = '0', holders = [] } = account;
  const granted = sumOf(...holders.map((holder) => amount(holder.granted)));
  const settled = sumOf(...holders.map((holder) => amount(holder.spent)));
  return {
    limit: sumOf(limit, amount(raised)),
    spent: sumOf(amount(spent), settled),
    reserved: Math.max(0, granted - settled),
  };
}

type Refusal = Pick<BudgetExhaustion, 'record' | 'account' | 'unit' | 'limit' | 'raised'>;

/**
 * Whether the budget has refused a call, and was not raised since. `refusals` are those of the
 * owner's own conversations: no owner holds up others by a call that is too large.
 */
export const hasRefused = (
  { record, account }: Pick<Budget, 'record' | 'account'>,
  { limit }: BudgetUse,
  refusals: readonly (Refusal | undefined)[],
): boolean =>
  refusals.some(
    (refusal) =>
      refusal?.record === record.name &&
      refusal.account === account &&
      sumOf(
        storedAmount(refusal.limit, refusal.unit),
        storedAmount(refusal.raised, refusal.unit),
      ) >= limit,
  );

/** Share of a budget from which on a refused call shows that the budget is used up. */
const usedUp = 0.9;

/**
 * Whether the budget has no room for calls. The rest may be less than any call needs, so that the
 * budget is never spent entirely: then a refused call shows the end, unless much is left and
 * only that call was too large. Shares that replicas may give back do not count.
 */
export const isExhausted = ({ limit, spent }: BudgetUse, hasRefusedCall = false): boolean =>
  spent >= (hasRefusedCall ? limit * usedUp : limit);
