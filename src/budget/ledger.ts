import { sleep } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { AccountEscrow, Refusal } from './account-escrow.ts';
import { saturated } from './money.ts';
import { RecordEscrow } from './record-escrow.ts';
import type { BudgetUnit, RecordKey, RecordStore } from './record-store.ts';
import type { Claim } from './share.ts';

/** The cost of a call. Integers from 0: 1e-9 USD, and tokens. */
export interface Amount {
  readonly nanos: number;
  readonly tokens: number;
}

/** One budget that a call has to fit into. */
export interface Budget {
  readonly record: RecordKey;
  /** Unique in the record and different in each period, for example `default/Month/2026-11-01`. */
  readonly account: string;
  readonly unit: BudgetUnit;
  /** In nanos or tokens, without what people have added. */
  readonly limit: number;
}

export interface ReserveRequest<B extends Budget = Budget> {
  /** Calls of different owners that wait for one account are served in turn. */
  readonly owner: string;
  readonly budgets: readonly B[];
  /** Worst case of the call. */
  readonly want: Amount;
  /** The least that the call can be made with. */
  readonly least: Amount;
  readonly signal: AbortSignal;
}

export interface Reservation {
  /** From `least` to `want`: as much as was left. The call must not be able to cost more. */
  readonly granted: Amount;
  /**
   * Counts what the call has cost. More than `granted` is counted, too. Only the first call of
   * `settle` or `release` has an effect.
   */
  settle(spent: Amount): void;
  /** The call was certainly not made. */
  release(): void;
}

export interface Exhausted<B extends Budget = Budget> extends Refusal {
  /** The budget that has given nothing. */
  readonly budget: B;
}

export interface LedgerOptions extends Runtime {
  readonly store: RecordStore;
  /** Unique among all replicas that ever were, for example the UID of the pod and a random text. */
  readonly replica: string;
  /** A call has cost more than was reserved for it. The excess is counted nevertheless. */
  readonly onExcess: (budget: Budget, excess: number) => void;
  /** Maximum time that a call waits for one budget; default 6 s. */
  readonly maxWaitMs?: number;
  /** Maximum duration of `close`; default 10 s, of which half is for calls in flight. */
  readonly maxCloseMs?: number;
}

interface Held<B extends Budget> {
  readonly budget: B;
  readonly claim: Claim;
}

/** The part of an amount that a budget counts. */
const fields = { USD: 'nanos', Tokens: 'tokens' } as const satisfies Record<
  BudgetUnit,
  keyof Amount
>;
const scopes = ['Conversation', 'Owner', 'Namespace'] as const;

/** A cost as it is counted: what cannot be a cost counts as all that was reserved. */
const costOf = (spent: number, reserved: number): number =>
  spent >= 0 ? saturated(spent) : reserved;

/**
 * Lets calls be made only within budgets, by any number of replicas. A call reserves its worst case
 * before it is made, and settles what it has cost. Each replica holds a share of a budget in
 * escrow, which it has taken from the UsageRecord before it is used (account.ts says why the money
 * is safe), so most calls are decided without a request, and go on while the API server is away.
 *
 * A unit of money is available in the record, free in a share, reserved by a call, or spent. Only a
 * confirmed write makes it free, and only a call that has cost less makes it free again.
 */
export class BudgetLedger {
  readonly #options: LedgerOptions;
  readonly #records = new Map<string, RecordEscrow>();
  #ids = 0;
  #isClosed = false;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** Number of records in memory, for metrics and tests. */
  get size(): number {
    return this.#records.size;
  }

  /**
   * Reserves at all budgets, or at none. Rejects only when `signal` aborts. While a budget of which
   * others hold a share is used up, the call waits for what they give back.
   */
  async reserve<B extends Budget>(request: ReserveRequest<B>): Promise<Reservation | Exhausted<B>> {
    const { owner, want, least, signal } = request;
    signal.throwIfAborted();
    const budgets = inOrder(request.budgets);
    const granted = { ...want };
    const held: Held<B>[] = [];
    const releaseAll = () => {
      for (const { claim } of held) claim.settle(0);
    };
    const expectations = this.#isClosed ? [] : this.#expect(budgets, want);
    try {
      for (const [index, budget] of budgets.entries()) {
        const field = fields[budget.unit];
        expectations[index]?.();
        const outcome = await this.#acquire(budget, {
          owner,
          signal,
          want: granted[field],
          least: Math.min(least[field], granted[field]),
        });
        if ('reason' in outcome) {
          releaseAll();
          return { ...outcome, budget };
        }
        held.push({ budget, claim: outcome });
        granted[field] = outcome.amount;
      }
    } catch (error) {
      releaseAll();
      throw error;
    } finally {
      for (const end of expectations) end();
    }
    for (const { budget, claim } of held) claim.lower(granted[fields[budget.unit]]);
    return this.#reservation(granted, held, releaseAll);
  }

  #reservation<B extends Budget>(
    granted: Amount,
    held: readonly Held<B>[],
    release: () => void,
  ): Reservation {
    return {
      granted,
      settle: (spent) => {
        for (const { budget, claim } of held) {
          const excess = claim.settle(costOf(spent[fields[budget.unit]], claim.amount));
          if (excess > 0) this.#options.onExcess(budget, excess);
        }
      },
      release,
    };
  }

  /** Asks for a write of the record within seconds, for what the store itself has to add. */
  requestWrite(record: RecordKey): void {
    if (!this.#isClosed) this.#record(record).requestWrite();
  }

  /**
   * Settles all shares and gives them back, within a bounded time. `reserve` refuses from now on. A
   * call that is in flight for longer than half of that time counts as spent with all that it has
   * reserved.
   */
  async close(): Promise<void> {
    const { clock, maxCloseMs = 10_000 } = this.#options;
    const startMs = clock.monotonic();
    this.#isClosed = true;
    const records = [...this.#records.values()];
    for (const record of records) record.refuseAll();
    while (records.some(({ hasCalls }) => hasCalls) && clock.monotonic() - startMs < maxCloseMs / 2)
      await sleep(clock, 20);
    await Promise.all(records.map((record) => record.close(startMs + maxCloseMs)));
    this.#records.clear();
  }

  /** Has the writes of all records that lack something begin at once. */
  #expect(budgets: readonly Budget[], want: Amount): readonly (() => void)[] {
    const escrows = budgets.map((budget) => {
      const account = this.#account(budget);
      // A call that waits for long knows an older limit than those that come after it.
      account.limit = budget.limit;
      return [account, want[fields[budget.unit]]] as const;
    });
    if (escrows.every(([account, amount]) => account.has(amount))) return [];
    return escrows.map(([account, amount]) =>
      account.has(amount) ? () => undefined : account.expect(amount),
    );
  }

  async #acquire(
    budget: Budget,
    request: Parameters<AccountEscrow['acquire']>[0],
  ): Promise<Claim | Refusal> {
    if (this.#isClosed) return { reason: 'unavailable', spent: 0, raised: 0, underWay: 0 };
    return this.#account(budget).acquire(request);
  }

  #account({ record, account, unit, limit }: Budget): AccountEscrow {
    return this.#record(record).account(account, unit, limit);
  }

  #record(key: RecordKey): RecordEscrow {
    const id = [key.namespace, key.name, key.spec.conversation?.uid ?? ''].join('/');
    const known = this.#records.get(id);
    if (known !== undefined) return known;
    const { clock, random, logger, store, replica, maxWaitMs = 6_000 } = this.#options;
    const record = new RecordEscrow({
      clock,
      random,
      logger,
      store,
      key,
      maxWaitMs,
      nextId: () => `${replica}.${++this.#ids}`,
      onUnused: () => this.#records.delete(id),
    });
    this.#records.set(id, record);
    return record;
  }
}

/**
 * Every call takes from budgets in this order, so two calls never wait for what the other one has.
 * A call that waits holds a part of narrower budgets alone, which delays nobody but its owner.
 */
function inOrder<B extends Budget>(budgets: readonly B[]): readonly B[] {
  const rank = ({ record, account }: B) =>
    [scopes.indexOf(record.spec.scope), record.name, account].join('/');
  return [...budgets].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
}
