import { shownAmount } from '../../../budget/money.ts';
import { Periods, shownMinute } from '../../../budget/period.ts';
import {
  accountOf,
  budgetsOf,
  hasRefused,
  isExhausted,
  quotaBudgets,
  useOf,
  type BudgetAccount,
  type BudgetUse,
} from '../../../quota/budgets.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { byExhaustedBudget, type Stores } from '../../caches.ts';

/** A start that waits for a budget with the policy Queue. */
export interface StartHold {
  /** For the owner. The text stays the same while the budget does, so that it is written once. */
  readonly message: string;
  /** Milliseconds until the next look at the budget. */
  readonly afterMs: number;
}

export interface StartHoldsOptions {
  readonly stores: Pick<Stores, 'conversations' | 'quotas' | 'usageRecords'>;
  readonly clock: { now: () => number };
}

/**
 * Maximum time until the next look. Watches report a raise and a change of a quota at once, but no
 * watch reports that the conversation with the refused call is deleted or goes on.
 */
const maxLookMs = 60_000;
const minLookMs = 500;

/**
 * Makes new starts wait whose owner has used up a budget with the policy Queue, before they get a
 * sandbox. A start goes on when no such budget is exhausted any more: in the next period, after a
 * raise, or after a change of the quota. All starts of an owner then go on together, and the quota
 * admits as many of their sandboxes as it has room for.
 */
export class StartHolds {
  readonly #options: StartHoldsOptions;
  readonly #periods = new Periods();

  constructor(options: StartHoldsOptions) {
    this.#options = options;
  }

  /** The first exhausted budget for which the start waits. */
  of({ metadata: { namespace }, spec: { owner } }: CachedConversation): StartHold | undefined {
    const { stores, clock } = this.#options;
    const nowMs = clock.now();
    const quotas = stores.quotas.list().filter(({ metadata }) => metadata.namespace === namespace);
    if (!quotas.some(({ spec: { budget } }) => budget?.onExceeded === 'Queue')) return undefined;
    for (const quota of budgetsOf(quotaBudgets(quotas), owner)) {
      if (quota.onExceeded !== 'Queue') continue;
      const account = accountOf(quota, { namespace, owner, nowMs }, this.#periods);
      const { name } = account.record;
      const use = useOf(account, stores.usageRecords.get(namespace, name));
      const refusals = stores.conversations
        .byIndex(byExhaustedBudget, `${namespace}/record/${name}`)
        .filter(({ spec }) => spec.owner === owner)
        .map(({ status }) => status?.budgetExhaustion);
      if (!isExhausted(use, hasRefused(account, use, refusals))) continue;
      const leftMs = Math.max(minLookMs, account.endsAtMs - nowMs);
      return { message: messageOf(account, use), afterMs: Math.min(maxLookMs, leftMs) };
    }
    return undefined;
  }
}

function messageOf({ quota, unit, endsAtMs }: BudgetAccount, { limit }: BudgetUse): string {
  const { quotaName, scope, period } = quota;
  const whose = scope === 'Owner' ? '' : 'common ';
  return `Waiting for the budget, which starts again at ${shownMinute(endsAtMs)}: the ${whose}${shownAmount(limit, unit)} a ${period.toLowerCase()} of the quota ${quotaName} are used up. An administrator can raise it.`;
}
