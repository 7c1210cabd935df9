import { backoffDelayMs } from '@conversation-operator/base/backoff';
import { sleep, type Timer } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import { deadAfterMs, emptyAccount, isForgettable, withoutDead } from './account.ts';
import { AccountEscrow, idleMs } from './account-escrow.ts';
import type { Account, BudgetUnit, RecordKey, RecordStore, StoredRecord } from './record-store.ts';

export interface RecordEscrowOptions extends Runtime {
  readonly key: RecordKey;
  readonly store: RecordStore;
  readonly nextId: () => string;
  readonly maxWaitMs: number;
  /** Nothing of the record is in use: it may be forgotten. */
  readonly onUnused: () => void;
}

/** Minimum time between writes for which no call waits. */
const flushMs = 5_000;
/** Age of a holder's last write at which it is renewed, long before others take it for dead. */
const renewMs = deadAfterMs / 4;
/** Time between reads while calls wait for what other replicas give back. */
const pollMs = 1_000;
const failureBackoff = { baseMs: 100, capMs: 2_000, jitter: 1 };
const conflictBackoff = { baseMs: 5, capMs: 300, jitter: 1 };

/** How the work at a record goes on. */
type Step = 'again' | 'conflict' | 'failed' | 'rest';

/**
 * This replica's shares in one record. At most one request of it is under way: calls that come
 * meanwhile are served together by the next write. A write is planned from the version that it
 * replaces, so after a conflict, or an outcome that stays unknown, everything is read and planned
 * again, and each change is found in the record exactly once.
 */
export class RecordEscrow {
  readonly #options: RecordEscrowOptions;
  readonly #accounts = new Map<string, AccountEscrow>();
  readonly #stop = new AbortController();
  /** The last version that is known; undefined: the next step reads. */
  #record: StoredRecord | undefined;
  /** A version that a write of unknown outcome may still replace. */
  #doubtful: string | undefined;
  #lastWriteMs = -Infinity;
  /** Whether the store itself has something to write. */
  #isWriteRequested = false;
  #isWorking = false;
  /** Whether a call has come since the last step began. */
  #isAsked = false;
  #isFinal = false;
  #timer: Timer | undefined;

  constructor(options: RecordEscrowOptions) {
    this.#options = options;
  }

  account(key: string, unit: BudgetUnit): AccountEscrow {
    const known = this.#accounts.get(key);
    if (known !== undefined) return known;
    const { clock, nextId, maxWaitMs } = this.#options;
    const account = new AccountEscrow({
      key,
      unit,
      clock,
      nextId,
      maxWaitMs,
      onDemand: () => this.#start(),
      onChange: () => this.#schedule(),
    });
    this.#accounts.set(key, account);
    return account;
  }

  requestWrite(): void {
    this.#isWriteRequested = true;
    this.#schedule();
  }

  get #all(): readonly AccountEscrow[] {
    return [...this.#accounts.values()];
  }

  #some(test: (account: AccountEscrow) => boolean): boolean {
    for (const account of this.#accounts.values()) if (test(account)) return true;
    return false;
  }

  get hasCalls(): boolean {
    return this.#some((account) => account.hasCalls);
  }

  get #isUnused(): boolean {
    if (this.#isWriteRequested || this.#doubtful !== undefined) return false;
    return !this.#some((account) => !account.isUnused);
  }

  refuseAll(): void {
    for (const account of this.#all) account.refuseAll();
  }

  /** Settles everything, and gives it back, until `deadlineMs` of the monotonic clock. */
  async close(deadlineMs: number): Promise<void> {
    const { clock } = this.#options;
    this.#isFinal = true;
    while (!this.#isUnused && clock.monotonic() < deadlineMs) {
      this.#start();
      await sleep(clock, 20);
    }
    this.#timer?.cancel();
    this.#stop.abort();
  }

  #start(): void {
    this.#isAsked = true;
    if (this.#isWorking || this.#stop.signal.aborted) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#isWorking = true;
    void this.#work().finally(() => {
      this.#isWorking = false;
      if (this.#stop.signal.aborted) return;
      if (this.#isAsked) this.#start();
      else if (this.#isUnused) this.#options.onUnused();
      else this.#rest();
    });
  }

  #rest(): void {
    // A write of unknown outcome may still bring a share into the record.
    if (this.#doubtful === undefined)
      for (const [key, account] of this.#accounts) if (account.isUnused) this.#accounts.delete(key);
    this.#schedule();
  }

  /** Sets the timer of the next step, unless one is set. */
  #schedule(): void {
    if (this.#isWorking || this.#timer !== undefined || this.#stop.signal.aborted) return;
    const { clock, random } = this.#options;
    const isPolling = this.#some(({ hasWaiters }) => hasWaiters);
    const flushInMs = Math.max(this.#lastWriteMs + flushMs - clock.monotonic(), idleMs);
    this.#timer = clock.after(isPolling ? pollMs * (0.75 + random() / 2) : flushInMs, () => {
      this.#timer = undefined;
      if (isPolling) this.#record = undefined;
      this.#start();
    });
  }

  async #work(): Promise<void> {
    const { clock, random } = this.#options;
    let [failures, conflicts] = [0, 0];
    while (!this.#stop.signal.aborted) {
      const step = await this.#step();
      if (step === 'rest') return;
      failures = step === 'failed' ? failures + 1 : 0;
      conflicts = step === 'conflict' ? conflicts + 1 : 0;
      if (step === 'again') continue;
      const delayMs =
        step === 'failed'
          ? backoffDelayMs(failureBackoff, failures, random)
          : backoffDelayMs(conflictBackoff, conflicts, random) * random();
      await sleep(clock, delayMs, this.#stop.signal).catch(() => undefined);
    }
  }

  async #step(): Promise<Step> {
    this.#isAsked = false;
    const record = this.#record;
    if (record === undefined) return this.#read();
    const planned = this.#plan(record);
    if (planned !== undefined) return this.#write(record, planned);
    if (this.#some(({ needsRead }) => needsRead)) return this.#read();
    for (const account of this.#all) account.judge();
    return 'rest';
  }

  /** All accounts as the next write has them; undefined: there is nothing to write now. */
  #plan(record: StoredRecord): readonly Account[] | undefined {
    const { clock } = this.#options;
    const nowMs = clock.now();
    const accounts = new Map(record.accounts.map((account) => [account.key, account]));
    const ageMs = clock.monotonic() - this.#lastWriteMs;
    const mayFlush = ageMs >= flushMs || this.#isFinal;
    let [isUrgent, isChanged] = [record.version === this.#doubtful || this.#isFinal, false];
    for (const own of this.#all) {
      if (mayFlush) own.leaveIfIdle(this.#isFinal);
      const planned = own.plan(this.#accountIn(record, own), nowMs);
      isUrgent ||= own.grows(planned);
      isChanged ||= own.changes(planned);
      if (planned.holders.length > 0 || accounts.has(own.key)) accounts.set(own.key, planned);
    }
    // After the renewal of this replica's own holders, which may have been silent for long.
    const living = [...accounts.values()].map((account) => withoutDead(account, nowMs));
    isChanged ||= living.some((account) => account !== accounts.get(account.key));
    isChanged ||= this.#isWriteRequested || (this.hasCalls && ageMs >= renewMs);
    const isDue = isUrgent || (isChanged && mayFlush);
    if (!isDue || (this.#isFinal && this.#isUnused)) return undefined;
    return living.filter((account) => !isForgettable(account, nowMs));
  }

  #accountIn({ accounts }: StoredRecord, { key, unit }: AccountEscrow): Account {
    return accounts.find((account) => account.key === key) ?? emptyAccount(key, unit);
  }

  async #read(): Promise<Step> {
    const { store, key, clock } = this.#options;
    const atMs = clock.monotonic();
    const found = await store
      .read(key)
      .catch((error: unknown) => this.#failed(error, 'unavailable'));
    if (found.kind === 'unavailable') return 'failed';
    if (found.kind === 'found') {
      this.#adopt(found.record, atMs);
      return 'again';
    }
    this.#doubtful = undefined;
    for (const account of this.#all) account.confirm(undefined, atMs, true);
    if (!this.#isWriteRequested && !this.#some(({ isWaitedFor }) => isWaitedFor)) return 'rest';
    const created = await store
      .create(key)
      .catch((error: unknown) => this.#failed(error, 'unknown'));
    if (created.kind === 'done') this.#adopt(created.record, atMs);
    if (created.kind === 'done' || created.kind === 'conflict') return 'again';
    return 'failed';
  }

  async #write(record: StoredRecord, planned: readonly Account[]): Promise<Step> {
    const { store, key, clock } = this.#options;
    const atMs = clock.monotonic();
    for (const own of this.#all)
      own.promise(
        planned.find((account) => account.key === own.key) ?? this.#accountIn(record, own),
      );
    const isRequested = this.#isWriteRequested;
    this.#isWriteRequested = false;
    const outcome = await store
      .replace(key, record, planned)
      .catch((error: unknown) => this.#failed(error, 'unknown'));
    if (outcome.kind === 'done') {
      this.#lastWriteMs = atMs;
      this.#adopt(outcome.record, atMs);
      return 'again';
    }
    // A store recognises by itself what it has added to a write whose outcome is unknown.
    this.#isWriteRequested ||= isRequested;
    if (outcome.kind === 'unknown') this.#doubtful = record.version;
    this.#record = undefined;
    return outcome.kind === 'unknown' ? 'failed' : 'conflict';
  }

  #adopt(record: StoredRecord, atMs: number): void {
    const isCertain = record.version !== this.#doubtful;
    if (isCertain) this.#doubtful = undefined;
    this.#record = record;
    for (const account of this.#all) {
      const stored = record.accounts.find(({ key }) => key === account.key);
      account.confirm(stored, atMs, isCertain);
    }
  }

  #failed<K extends string>(error: unknown, kind: K): { readonly kind: K } {
    const { logger, key } = this.#options;
    logger.error('A request for a usage record failed unexpectedly', {
      error,
      namespace: key.namespace,
      record: key.name,
    });
    return { kind };
  }
}
