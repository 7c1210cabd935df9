import type { Budget } from '../../budget/ledger.ts';
import { amountOf } from '../../budget/money.ts';
import type { Periods } from '../../budget/period.ts';
import { accountOf, budgetsOf, type QuotaBudgets } from '../../quota/budgets.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { recordKeyOf } from './usage-store.ts';

/** Name of the account of a budget that is only for one conversation. */
export const conversationAccount = 'conversation';

/** A budget that holds for a conversation. */
export interface BudgetInForce extends Budget {
  /** Name of the quota; undefined: the conversation's own budget. */
  readonly quota: string | undefined;
  /** End of the period; Infinity for a budget without one. */
  readonly endsAtMs: number;
}

export interface BudgetsInForceOptions {
  readonly budgets: QuotaBudgets;
  readonly namespace: string;
  readonly periods: Periods;
  readonly nowMs: number;
}

/** The budgets that hold for a conversation at present: those of quotas, and its own. */
export function budgetsInForce(
  { metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>,
  { budgets, namespace, periods, nowMs }: BudgetsInForceOptions,
): readonly BudgetInForce[] {
  const { owner, budget } = spec;
  const ofQuotas = budgetsOf(budgets, owner).map((quota) => ({
    ...accountOf(quota, { namespace, owner, nowMs }, periods),
    quota: quota.quotaName,
  }));
  if (budget === undefined) return ofQuotas;
  const subject = { conversation: { name: metadata.name, uid: metadata.uid } };
  return [
    ...ofQuotas,
    {
      record: recordKeyOf(namespace, subject),
      account: conversationAccount,
      unit: 'USD',
      limit: amountOf(budget.amount, 'USD'),
      quota: undefined,
      endsAtMs: Infinity,
    },
  ];
}
