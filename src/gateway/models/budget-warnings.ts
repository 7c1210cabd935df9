import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { EventRecorder } from '@conversation-operator/kube/events';
import { spentOf } from '../../budget/account.ts';
import { shownAmount, sumOf } from '../../budget/money.ts';
import type { RecordKey } from '../../budget/record-store.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { uuidOf } from '../../resources/ids.ts';
import type { BudgetInForce } from './budgets-in-force.ts';
import type { AccountWarnings, MarkedAccount } from './usage-store.ts';

/** Parts of a budget, in percent, at which its owner is warned. */
export const warningPercents = [80, 90] as const;
export type WarningPercent = (typeof warningPercents)[number];

/** The highest part that is spent; undefined below all of them. */
export function warningOf(spent: number, limit: number): WarningPercent | undefined {
  return warningPercents.findLast((percent) => spent * 100 >= limit * percent);
}

export interface BudgetWarningsOptions {
  readonly events: Pick<EventRecorder, 'record'>;
  readonly metrics: Pick<Metrics, 'budgetWarnings'>;
}

interface Watched {
  readonly budget: BudgetInForce;
  /** The conversation that last used the budget, to which the Event goes. */
  readonly conversation: CachedConversation;
}

const maxWatched = 20_000;

/**
 * Warns when 80 and 90 % of a budget are spent, once in its period: the next write of the record
 * stores that, and until then the Event has the same name in every process. A raise that lowers the
 * part again makes the warnings possible once more.
 */
export class BudgetWarnings implements AccountWarnings {
  readonly #options: BudgetWarningsOptions;
  readonly #watched = recentlyUsed<Watched>(maxWatched);
  readonly #warned = recentlyUsed<WarningPercent>(maxWatched);

  constructor(options: BudgetWarningsOptions) {
    this.#options = options;
  }

  /** Remembers the budgets of a call, whose account `observe` sees within seconds. */
  watch(conversation: CachedConversation, budgets: readonly BudgetInForce[]): void {
    for (const budget of budgets)
      this.#watched.set(keyOf(budget.record, budget.account), { budget, conversation });
  }

  /** Looks at the accounts of a record that was read or written. */
  observe(record: RecordKey, accounts: readonly MarkedAccount[]): void {
    for (const account of accounts) {
      const key = keyOf(record, account.key);
      const watched = this.#watched.get(key);
      if (watched === undefined) continue;
      const limit = sumOf(watched.budget.limit, account.raised);
      const spent = spentOf(account);
      const percent = warningOf(spent, limit);
      const before = Math.max(this.#warned.get(key) ?? 0, account.warned ?? 0);
      if (percent === undefined) this.#warned.delete(key);
      else this.#warned.set(key, percent);
      if (percent !== undefined && percent > before) this.#warn(watched, percent, limit);
    }
  }

  markOf(record: RecordKey, { warned, ...account }: MarkedAccount): number | undefined {
    const key = keyOf(record, account.key);
    const watched = this.#watched.get(key);
    if (watched === undefined) return warned;
    const percent = warningOf(spentOf(account), sumOf(watched.budget.limit, account.raised)) ?? 0;
    const mark = Math.min(percent, Math.max(this.#warned.get(key) ?? 0, warned ?? 0));
    return mark === 0 ? undefined : mark;
  }

  #warn(
    { budget: { quota, unit, record, account }, conversation }: Watched,
    percent: WarningPercent,
    limit: number,
  ): void {
    const { events, metrics } = this.#options;
    const whose = quota === undefined ? 'this conversation' : `quota ${quota}`;
    metrics.budgetWarnings.inc({ percent: String(percent) as `${WarningPercent}` });
    events.record(conversation, {
      type: 'Warning',
      reason: 'BudgetNearlyExhausted',
      name: `budget-${uuidOf(`${keyOf(record, account)}/${percent}/${limit}`)}`,
      message: `${percent} % of the budget of ${shownAmount(limit, unit)} of ${whose} are spent.`,
    });
  }
}

const keyOf = ({ namespace, name }: RecordKey, account: string): string =>
  `${namespace}/${name}/${account}`;
