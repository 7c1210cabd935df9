import type { Clock, Timer } from '@conversation-operator/base/clock';
import {
  committedOf,
  emptyAccount,
  grantFor,
  roomOf,
  spentOf,
  unspentByOthers,
  withHolder,
  withoutHolder,
  type Demand,
} from './account.ts';
import { FairQueue } from './fair-queue.ts';
import { sumOf } from './money.ts';
import type { Account, BudgetUnit } from './record-store.ts';
import { Share, type Claim } from './share.ts';

/** Why an account has given nothing. */
export interface Refusal {
  readonly reason: 'exhausted' | 'unavailable';
  readonly spent: number;
  readonly raised: number;
  /** Amount that calls under way have reserved, and may give back when they end. */
  readonly underWay: number;
}

export interface AccountRequest extends Demand {
  readonly owner: string;
  readonly signal: AbortSignal;
}

/** A living replica renews its share more often; a share that is older gives nothing back soon. */
const freshMs = 15_000;

interface Waiter extends AccountRequest {
  readonly sinceMs: number;
  readonly end: (outcome: Claim | Refusal | Error, isServed: boolean) => void;
}

export interface AccountEscrowOptions {
  readonly key: string;
  readonly unit: BudgetUnit;
  readonly limit: number;
  readonly clock: Clock;
  readonly nextId: () => string;
  /** Maximum wait for the store, and for what others give back. */
  readonly maxWaitMs: number;
  /** Calls wait for more than the share has. */
  readonly onDemand: () => void;
  /** Something is to be written sooner or later. */
  readonly onChange: () => void;
}

/** Duration without a new call after which a share without calls in flight is given back. */
export const idleMs = 1_000;
/** Maximum age, at the begin of a call, of the record that the call may be refused by. */
const maxRefusalAgeMs = 500;
/** The same at the end of its wait, during which the record is polled. */
const maxWaitAgeMs = 3_000;

/**
 * The share of one account, and the calls that wait for more of it. A call is decided at once where
 * the share has enough; otherwise the next write of the record takes what the waiting calls and the
 * next few need.
 */
export class AccountEscrow {
  readonly key: string;
  readonly unit: BudgetUnit;
  readonly #options: AccountEscrowOptions;
  readonly #queue = new FairQueue<Waiter>();
  #share: Share;
  /** Shares without calls that are on their way out of the record. */
  #leaving: readonly Share[] = [];
  #limit: number;
  #seen: Account;
  #seenAtMs = -Infinity;
  /** Amount that calls will ask for which still wait for another account. */
  #expected = 0;
  #typical = 0;
  #lastUsedMs = -Infinity;

  constructor(options: AccountEscrowOptions) {
    this.#options = options;
    this.key = options.key;
    this.unit = options.unit;
    this.#limit = options.limit;
    this.#share = new Share(options.nextId());
    this.#seen = emptyAccount(options.key, options.unit);
  }

  /** The limit as the newest call knows it. */
  set limit(limit: number) {
    this.#limit = limit;
  }

  get hasWaiters(): boolean {
    return !this.#queue.isEmpty;
  }

  get isWaitedFor(): boolean {
    return this.hasWaiters || this.#expected > 0;
  }

  /** Neither calls nor a holder in the record: nothing is lost when this is forgotten. */
  get isUnused(): boolean {
    const { stored, used } = this.#share;
    return !this.isWaitedFor && used === 0 && stored === undefined && this.#leaving.length === 0;
  }

  get hasCalls(): boolean {
    return this.#share.reserved > 0;
  }

  /** The share can give this at once: less where the limit was lowered below what is committed. */
  get #free(): number {
    const excess = committedOf(this.#seen) - sumOf(this.#limit, this.#seen.raised);
    return Math.max(0, this.#share.free - Math.max(0, excess));
  }

  has(amount: number): boolean {
    return amount === 0 || (this.#queue.isEmpty && this.#free >= amount);
  }

  /** Has the next write take this much, too. The caller asks for it, or ends the expectation. */
  expect(amount: number): () => void {
    let isOver = false;
    this.#expected = sumOf(this.#expected, amount);
    this.#options.onDemand();
    return () => {
      if (!isOver) this.#expected -= amount;
      isOver = true;
    };
  }

  async acquire(request: AccountRequest): Promise<Claim | Refusal> {
    request.signal.throwIfAborted();
    if (this.has(request.want)) return this.#claim(request.want);
    return this.#wait(request);
  }

  #wait(request: AccountRequest): Promise<Claim | Refusal> {
    const { clock, maxWaitMs, onDemand } = this.#options;
    const { owner, signal } = request;
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined = undefined;
      const onAbort = () => waiter.end(signal.reason as Error, false);
      const waiter: Waiter = {
        ...request,
        sinceMs: clock.monotonic(),
        end: (outcome, isServed) => {
          timer?.cancel();
          signal.removeEventListener('abort', onAbort);
          this.#queue.remove(owner, waiter, { isServed });
          if (outcome instanceof Error) reject(outcome);
          else resolve(outcome);
        },
      };
      this.#queue.add(owner, waiter);
      timer = clock.after(maxWaitMs, () => this.#endWait(waiter));
      signal.addEventListener('abort', onAbort, { once: true });
      this.serve();
      if (this.isWaitedFor) onDemand();
    });
  }

  #claim(amount: number): Claim {
    const { clock, onChange } = this.#options;
    this.#lastUsedMs = clock.monotonic();
    this.#typical = this.#typical === 0 ? amount : this.#typical * 0.8 + amount * 0.2;
    const claim = this.#share.claim(amount, () => {
      this.serve();
      onChange();
    });
    onChange();
    return claim;
  }

  /** Gives what the share has to the calls that wait. A call that needs more delays no other. */
  serve(): void {
    if (this.#queue.isEmpty || this.#free === 0) return;
    for (const waiter of this.#queue.inOrder())
      if (this.#free >= waiter.want) waiter.end(this.#claim(waiter.want), true);
  }

  /** A call gets what there is at the end of its wait. */
  #endWait(waiter: Waiter): void {
    const isExhausted = this.#isKnownFor(waiter) && this.#left < waiter.least;
    const refusal = this.#refusal(isExhausted ? 'exhausted' : 'unavailable');
    waiter.end(this.#partFor(waiter) ?? refusal, true);
  }

  /** Amount for new calls of this replica, as of the last version of the account. */
  get #left(): number {
    return roomOf(this.#seen, this.#share.id, this.#limit) - this.#share.used;
  }

  #partFor({ want, least }: Demand): Claim | undefined {
    const part = Math.min(want, this.#free);
    return part >= least && part > 0 ? this.#claim(part) : undefined;
  }

  #refusal(reason: Refusal['reason']): Refusal {
    const { raised } = this.#seen;
    const stored = this.#share.stored?.spent ?? 0;
    return {
      reason,
      spent: sumOf(spentOf(this.#seen), this.#share.spent - stored),
      raised,
      underWay: sumOf(
        unspentByOthers(this.#seen, this.#share.id, this.#options.clock.now() - freshMs),
        this.#share.reserved,
      ),
    };
  }

  /** Whether the last version is new enough to refuse a call, also after this process was paused. */
  #isKnownFor({ sinceMs }: Waiter): boolean {
    const { clock } = this.#options;
    return this.#seenAtMs >= Math.max(sinceMs - maxRefusalAgeMs, clock.monotonic() - maxWaitAgeMs);
  }

  /** Whether a call waits that only a newer version of the record can decide. */
  get needsRead(): boolean {
    return this.#queue.inOrder().some((waiter) => !this.#isKnownFor(waiter));
  }

  /**
   * Decides calls for which the record has nothing more: a call gets a part, or is refused, unless
   * other replicas may give back, or calls in flight may cost, as much as it lacks.
   */
  judge(): void {
    const { id, reserved } = this.#share;
    const hope = sumOf(unspentByOthers(this.#seen, id), reserved);
    for (const waiter of this.#queue.inOrder()) {
      if (!this.#isKnownFor(waiter)) continue;
      const part = hope === 0 ? this.#partFor(waiter) : undefined;
      if (part !== undefined) waiter.end(part, true);
      else if (this.#left + hope < waiter.least) waiter.end(this.#refusal('exhausted'), true);
    }
  }

  /** Ends all waits, because the ledger closes. */
  refuseAll(): void {
    for (const waiter of this.#queue.inOrder()) waiter.end(this.#refusal('unavailable'), true);
  }

  get #isQuiet(): boolean {
    return this.#options.clock.monotonic() - this.#lastUsedMs >= idleMs;
  }

  /**
   * Has the next write settle a share without calls, and another share serve new calls, so that a
   * settled one stays settled. `isFinal`: the costs of calls in flight will not be learned, so each
   * counts as spent.
   */
  leaveIfIdle(isFinal: boolean): void {
    const share = this.#share;
    const isIdle = this.#isQuiet && !this.isWaitedFor && share.reserved === 0;
    if (share.stored === undefined || !(isIdle || isFinal)) return;
    share.promise(0);
    this.#leaving = [...this.#leaving, share];
    this.#share = new Share(this.#options.nextId());
  }

  /**
   * The account as the next write has it, with what the share is to have. `isDoubtful`: the write
   * has to change the record, even where nothing is needed.
   */
  plan(account: Account, nowMs: number, isDoubtful: boolean): Account {
    const settled = this.#leaving.reduce(
      (left, { id, used }) => withoutHolder(left, id, used),
      account,
    );
    const { id, used, spent, reserved, stored } = this.#share;
    const demands: Demand[] = this.#queue.inOrder().slice();
    if (this.#expected > 0) demands.push({ want: this.#expected, least: 1 });
    const ahead = this.#isQuiet && !this.isWaitedFor ? 0 : Math.ceil(reserved + 2 * this.#typical);
    const granted = grantFor(roomOf(settled, id, this.#limit), { used, demands, ahead });
    if (granted === 0 && stored === undefined && !isDoubtful) return settled;
    return withHolder(settled, { id, granted, spent, renewedAtMs: nowMs });
  }

  /** Stops the use of what the write that comes now gives back. */
  promise(planned: Account): void {
    this.#share.promise(this.#grantIn(planned));
  }

  /**
   * Takes over a version of the record that was current at `atMs`. `isCertain`: no write of this
   * replica can be applied to this version any more.
   */
  confirm(account: Account | undefined, atMs: number, isCertain: boolean): void {
    this.#seen = account ?? emptyAccount(this.key, this.unit);
    this.#seenAtMs = atMs;
    const storedOf = ({ id }: Share) => this.#seen.holders.find((holder) => holder.id === id);
    this.#leaving = this.#leaving.filter((share) => storedOf(share) !== undefined);
    const stored = storedOf(this.#share);
    if (stored !== undefined) this.#share.confirm(stored, isCertain);
    // Another replica has counted the whole grant as spent, including what is in flight.
    else if (this.#share.stored !== undefined) this.#share = new Share(this.#options.nextId());
    this.serve();
  }

  /** Whether calls wait that get more by the planned write. */
  grows(planned: Account): boolean {
    return this.isWaitedFor && this.#grantIn(planned) > (this.#share.stored?.granted ?? 0);
  }

  /** Whether the planned write changes more than the time of the renewal. */
  changes(planned: Account): boolean {
    const { stored, spent } = this.#share;
    return (
      this.#leaving.length > 0 ||
      spent !== (stored?.spent ?? 0) ||
      this.#grantIn(planned) !== (stored?.granted ?? 0)
    );
  }

  #grantIn(planned: Account): number {
    return planned.holders.find(({ id }) => id === this.#share.id)?.granted ?? 0;
  }
}
