import type { Clock } from '@conversation-operator/base/clock';
import type { Budget } from '../../budget/ledger.ts';
import { amountOf } from '../../budget/money.ts';
import { accountKey, type Period, type Periods } from '../../budget/period.ts';
import type { BudgetUnit } from '../../budget/record-store.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { recordKeyOf } from './usage-store.ts';

/** Name of the account of a budget that is only for one conversation. */
export const conversationAccount = 'conversation';

/** A budget that holds for a conversation. */
export interface BudgetInForce extends Budget {
  /** Name of the quota; undefined for the conversation's own budget. */
  readonly quota: string | undefined;
  /** End of the period; Infinity for a budget without one. */
  readonly endsAtMs: number;
}

export interface BudgetsInForceOptions {
  /** The quotas whose budgets hold for an owner: its own or the default, and the namespace's. */
  readonly quotasOf: (owner: string) => readonly ConversationQuota[];
  readonly namespace: string;
  readonly periods: Periods;
  readonly clock: Pick<Clock, 'now'>;
}

/** In UTC where this machine does not know the zone. */
function periodOf(
  { period, timeZone }: NonNullable<ConversationQuota['spec']['budget']>,
  periods: Periods,
  atMs: number,
): Period {
  try {
    return periods.around(period, timeZone, atMs);
  } catch {
    return periods.around(period, 'UTC', atMs);
  }
}

/** The budgets that hold for a conversation at present: those of quotas, and its own. */
export function budgetsInForce(
  { metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>,
  { quotasOf, namespace, periods, clock }: BudgetsInForceOptions,
): readonly BudgetInForce[] {
  const ofQuotas = quotasOf(spec.owner).flatMap((quota): readonly BudgetInForce[] => {
    const { budget, scope } = quota.spec;
    if (budget === undefined) return [];
    const unit: BudgetUnit = budget.currency;
    const period = periodOf(budget, periods, clock.now());
    const month = period.firstDay.slice(0, 7);
    return [
      {
        record: recordKeyOf(
          namespace,
          scope === 'Owner' ? { owner: spec.owner, month } : { month },
        ),
        account: accountKey(quota.metadata.name, period, unit),
        unit,
        limit: amountOf(budget.amount, unit),
        quota: quota.metadata.name,
        endsAtMs: period.endMs,
      },
    ];
  });
  if (spec.budget === undefined) return ofQuotas;
  const { name, uid } = metadata;
  return [
    ...ofQuotas,
    {
      record: recordKeyOf(namespace, { conversation: { name, uid } }),
      account: conversationAccount,
      unit: 'USD',
      limit: amountOf(spec.budget.amount, 'USD'),
      quota: undefined,
      endsAtMs: Infinity,
    },
  ];
}
