import type { Runtime } from '@conversation-operator/base/runtime';
import type { BudgetUnit, RecordKey, RecordStore } from './record-store.ts';

/** What a call costs. Integers from 0: 1e-9 USD, and tokens. */
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
  /** End of the period; Infinity for a budget without one. */
  readonly endsAtMs: number;
}

export interface ReserveRequest {
  /** Calls of different owners that wait for one account are served in turn. */
  readonly owner: string;
  readonly budgets: readonly Budget[];
  /** Worst case of the call. */
  readonly want: Amount;
  /** The least that the call can be made with. */
  readonly least: Amount;
  readonly signal: AbortSignal;
}

export interface Reservation {
  /** From `least` to `want`: as much as was left. The call must not be able to cost more. */
  readonly granted: Amount;
  /** Counts what the call has cost. More than `granted` is counted, too. Only the first call of `settle` or `release` has an effect. */
  settle(spent: Amount): void;
  /** The call was certainly not made. */
  release(): void;
}

export interface Exhausted {
  readonly budget: Budget;
  /** `unavailable`: the API server is away, and the share that this replica holds is used up. */
  readonly reason: 'exhausted' | 'unavailable';
  /** What is spent of the budget as far as this replica knows. */
  readonly spent: number;
  /** What people have added to the limit as far as this replica knows. */
  readonly raised: number;
}

export interface LedgerOptions extends Runtime {
  readonly store: RecordStore;
  /** Unique among all replicas that ever were, for example the UID of the pod and a random text. */
  readonly replica: string;
  /** A call has cost more than was reserved for it. The excess is counted nevertheless. */
  readonly onExcess: (budget: Budget, excess: number) => void;
}

export declare class BudgetLedger {
  constructor(options: LedgerOptions);
  /** Reserves at all budgets, or at none. Rejects only when `signal` aborts. */
  reserve(request: ReserveRequest): Promise<Reservation | Exhausted>;
  /** Asks for a write of the record within 5 s, for what the store itself has to add. */
  requestWrite(record: RecordKey): void;
  /** Settles all shares and gives them back, within a bounded time. `reserve` refuses from now on. */
  close(): Promise<void>;
}
