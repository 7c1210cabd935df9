import type { Clock, Timer } from '@conversation-operator/base/clock';
import { TokenBuckets } from './rate-limits.ts';

/** Maximum part of the event loop's time for one owner while others are active. */
const ownersShare = 1 / 5;
/** Event loop time that an owner can save (`burstMs`) and owe (`maxDebtMs`), in milliseconds. */
const burstMs = 50;
const maxDebtMs = 200;
/** Time for which an owner counts as active after its last use of the event loop. */
const activeMs = 1_000;
const maxOwners = 10_000;

/**
 * Limits each owner to a part of the event loop's time while several owners are active. Tasks can't
 * be interrupted, so an owner's requests may wait for another owner's task even if the loop has
 * idle time.
 */
class EventLoopBudget {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Remaining time of each owner; a token is a millisecond. */
  readonly #budgets: TokenBuckets;
  /** The owner that used the event loop last, and the monotonic time of this use. */
  #last = { owner: '', at: -Infinity };
  #otherAt = -Infinity;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#budgets = new TokenBuckets({
      clock,
      perSecond: 1_000 * ownersShare,
      burst: burstMs,
      maxDebt: maxDebtMs,
      capacity: maxOwners,
    });
  }

  use(owner: string, costMs: number): void {
    const now = this.#clock.monotonic();
    if (this.#last.owner !== owner) this.#otherAt = this.#last.at;
    this.#last = { owner, at: now };
    this.#budgets.charge(owner, costMs);
  }

  /** Delay before the owner may use the event loop again, in milliseconds. */
  waitMs(owner: string): number {
    return this.#isAlone(owner) ? 0 : this.#budgets.waitMs(owner);
  }

  #isAlone(owner: string): boolean {
    const otherAt = this.#last.owner === owner ? this.#otherAt : this.#last.at;
    return this.#clock.monotonic() - otherAt > activeMs;
  }
}

export interface FairSchedulerOptions {
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
  /** Calls back when the event loop has handled pending events; `setImmediate` by default. */
  readonly yieldLoop?: (callback: () => void) => void;
}

/** Maximum time of tasks in one turn of the event loop, in milliseconds. */
const sliceMs = 4;
/** Minimum cost of a task, because the process spends about this time before and after the task. */
const minCostMs = 0.2;
const mebibyte = 1_048_576;
/** Cost that `chargeBytes` adds per mebibyte, with the garbage collection of the data. */
const msPerMebibyte = 16;

interface Account {
  readonly owner: string;
  /** Virtual time of start-time fair queueing at which the owner's next task is due. */
  dueMs: number;
  readonly waiting: (() => void)[];
}

/**
 * Shares the event loop's time among owners by start-time fair queueing. If no task waits, a task
 * runs at once. Otherwise the owner that has used the least time so far is next, so that expensive
 * requests delay their own owner.
 */
export class FairScheduler {
  readonly #clock: FairSchedulerOptions['clock'];
  readonly #yieldLoop: (callback: () => void) => void;
  readonly #meter: EventLoopBudget;
  /** Owners with waiting tasks, and owners that have used more time than `#virtualMs`. */
  readonly #accounts = new Map<string, Account>();
  #virtualMs = 0;
  #usedMs = 0;
  #waiting = 0;
  #isYielding = false;
  #timer: Timer | undefined;

  constructor({ clock, yieldLoop = setImmediate }: FairSchedulerOptions) {
    this.#clock = clock;
    this.#yieldLoop = yieldLoop;
    this.#meter = new EventLoopBudget(clock);
  }

  get waiting(): number {
    return this.#waiting;
  }

  get size(): number {
    return this.#accounts.size;
  }

  /** Runs a task at once or when its owner is next. Its cost is the time to the first `await`. */
  run<T>(owner: string, work: () => T | Promise<T>): Promise<T> {
    if (this.#waiting === 0 && this.#usedMs < sliceMs && this.#meter.waitMs(owner) === 0)
      return this.#measured(owner, work);
    return new Promise((resolve) => {
      this.#accountOf(owner).waiting.push(() => resolve(this.#measured(owner, work)));
      this.#waiting += 1;
      this.#yield();
    });
  }

  /** Adds the cost of read or created bytes, whose garbage collection runs outside of all tasks. */
  chargeBytes(owner: string, bytes: number): void {
    this.#charge(owner, (bytes / mebibyte) * msPerMebibyte);
  }

  /** Runs a task at once, before all waiting tasks, and charges its time to the owner. */
  now<T>(owner: string, work: () => T): T {
    const began = this.#clock.monotonic();
    try {
      return work();
    } finally {
      this.#charge(owner, Math.max(minCostMs, this.#clock.monotonic() - began));
    }
  }

  #charge(owner: string, costMs: number): void {
    this.#accountOf(owner).dueMs += costMs;
    this.#meter.use(owner, costMs);
    this.#usedMs += costMs;
    this.#yield();
  }

  async #measured<T>(owner: string, work: () => T | Promise<T>): Promise<T> {
    return await this.now(owner, work);
  }

  #accountOf(owner: string): Account {
    const known = this.#accounts.get(owner);
    const account = known ?? { owner, dueMs: this.#virtualMs, waiting: [] };
    if (known === undefined) this.#accounts.set(owner, account);
    // An owner can't save up time that it has not used.
    else if (account.waiting.length === 0) account.dueMs = Math.max(account.dueMs, this.#virtualMs);
    return account;
  }

  #yield(): void {
    if (this.#isYielding) return;
    this.#isYielding = true;
    this.#timer?.cancel();
    this.#yieldLoop(() => {
      this.#isYielding = false;
      this.#usedMs = 0;
      this.#next();
    });
  }

  /** Runs one task and yields, so that its continuations run before the next task is chosen. */
  #next(): void {
    if (this.#waiting === 0) {
      // Time that was used while no task waited delayed no owner, so it does not count.
      this.#accounts.clear();
      this.#virtualMs = 0;
      return;
    }
    let first: Account | undefined;
    let waitMs = Infinity;
    for (const account of this.#accounts.values()) {
      if (account.waiting.length === 0 || (first !== undefined && account.dueMs >= first.dueMs))
        continue;
      const ownMs = this.#meter.waitMs(account.owner);
      if (ownMs === 0) first = account;
      else waitMs = Math.min(waitMs, ownMs);
    }
    const begin = first?.waiting.shift();
    if (first === undefined || begin === undefined) {
      this.#timer = this.#clock.after(waitMs, () => this.#yield());
      return;
    }
    this.#waiting -= 1;
    this.#virtualMs = Math.max(this.#virtualMs, first.dueMs);
    for (const { owner, dueMs, waiting } of this.#accounts.values()) {
      if (waiting.length === 0 && dueMs <= this.#virtualMs) this.#accounts.delete(owner);
    }
    begin();
    this.#yield();
  }
}
