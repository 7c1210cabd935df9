import type { Clock } from '@conversation-operator/base/clock';
import type { Budget } from '../../budget/ledger.ts';
import { amountOf } from '../../budget/money.ts';
import { accountKey, isTimeZone, type Periods } from '../../budget/period.ts';
import type { BudgetUnit, RecordKey } from '../../budget/record-store.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import {
  usageRecordNameOf,
  usageRecordSpecOf,
  type UsageSubject,
} from '../../resources/usage-record.ts';

/** Name of the account of a budget that is only for one conversation. */
export const conversationAccount = 'conversation';

export interface BudgetsInForceOptions {
  /** The quotas whose budgets hold for an owner: its own or the default, and the namespace's. */
  readonly quotasOf: (owner: string) => readonly ConversationQuota[];
  readonly namespace: string;
  readonly periods: Periods;
  readonly clock: Pick<Clock, 'now'>;
}

/** The budgets that hold for a conversation at present: those of quotas, and its own. */
export function budgetsInForce(
  { metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>,
  { quotasOf, namespace, periods, clock }: BudgetsInForceOptions,
): readonly Budget[] {
  const keyOf = (subject: UsageSubject): RecordKey => ({
    namespace,
    name: usageRecordNameOf(subject),
    spec: usageRecordSpecOf(subject),
  });
  const ofQuotas = quotasOf(spec.owner).flatMap((quota): readonly Budget[] => {
    const { budget, scope } = quota.spec;
    if (budget === undefined) return [];
    const unit: BudgetUnit = budget.currency;
    const zone = isTimeZone(budget.timeZone) ? budget.timeZone : 'UTC';
    const period = periods.around(budget.period, zone, clock.now());
    const month = period.firstDay.slice(0, 7);
    return [
      {
        record: keyOf(scope === 'Owner' ? { owner: spec.owner, month } : { month }),
        account: accountKey(quota.metadata.name, period, unit),
        unit,
        limit: amountOf(budget.amount, unit),
        endsAtMs: period.endMs,
      },
    ];
  });
  if (spec.budget === undefined) return ofQuotas;
  const { name, uid } = metadata;
  return [
    ...ofQuotas,
    {
      record: keyOf({ conversation: { name, uid } }),
      account: conversationAccount,
      unit: 'USD',
      limit: amountOf(spec.budget.amount, 'USD'),
      endsAtMs: Infinity,
    },
  ];
}
