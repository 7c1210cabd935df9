/**
 * A UsageRecord as the ledger sees it. Every amount is an integer of its unit: 1e-9 USD ("nanos"),
 * or tokens.
 */
export type BudgetUnit = 'USD' | 'Tokens';

/** A replica's share of a budget. All of its fields are absolute, so a repeated write is harmless. */
export interface Holder {
  readonly id: string;
  /** What the holder has taken in all. Never less than what it has spent and has in flight. */
  readonly granted: number;
  /** The settled part of `granted`, as of the holder's last write. */
  readonly spent: number;
  /** Wall-clock time of the holder's last write. */
  readonly renewedAtMs: number;
}

/** One budget in one period. */
export interface Account {
  readonly key: string;
  readonly unit: BudgetUnit;
  /** Settled amounts of holders that are gone, and whole grants of holders that died. */
  readonly spent: number;
  /** What people have added to the limit. The ledger never changes it. */
  readonly raised: number;
  readonly holders: readonly Holder[];
}

/** Names a record, and says what its immutable spec is where it has to be created. */
export interface RecordKey {
  readonly namespace: string;
  readonly name: string;
  readonly spec: {
    readonly scope: 'Owner' | 'Namespace' | 'Conversation';
    readonly owner?: string;
    readonly month?: string;
    readonly conversation?: { readonly name: string; readonly uid: string };
  };
}

/** One version of a record. The store may keep more in it, such as the object that it has read. */
export interface StoredRecord {
  /** Changes with each write, by whomever (resourceVersion and UID of the object). */
  readonly version: string;
  readonly accounts: readonly Account[];
}

export type WriteOutcome<R extends StoredRecord = StoredRecord> =
  | { readonly kind: 'done'; readonly record: R }
  /** Another write came first, and this one will never be applied. */
  | { readonly kind: 'conflict' }
  /** There is no such record. */
  | { readonly kind: 'missing' }
  /** The write may have been applied, may still be applied later, or neither. */
  | { readonly kind: 'unknown' };

/**
 * What the ledger needs of the API server. No method rejects for a failure of the API server, and
 * each ends within a bounded time.
 *
 * Danger: money is safe only if `read` is a read of the latest version (a quorum read, no cache of
 * a watch) and `replace` is compare-and-swap: a write that names another version than the stored
 * one is never applied, also not late.
 *
 * A write may carry more than accounts: a store that counts tokens adds its own fields of the same
 * object in `replace`, and `BudgetLedger.requestWrite` asks for a write on its behalf.
 */
export interface RecordStore<R extends StoredRecord = StoredRecord> {
  read(
    key: RecordKey,
  ): Promise<
    | { readonly kind: 'found'; readonly record: R }
    | { readonly kind: 'missing' }
    | { readonly kind: 'unavailable' }
  >;
  /** Creates the record without accounts. `conflict`: it exists. */
  create(key: RecordKey): Promise<WriteOutcome<R>>;
  /** Replaces all accounts of `record`, which is the version that was read. */
  replace(key: RecordKey, record: R, accounts: readonly Account[]): Promise<WriteOutcome<R>>;
}
