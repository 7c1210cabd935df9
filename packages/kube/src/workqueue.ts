import { backoffDelayMs, type BackoffOptions } from '@conversation-operator/base/backoff';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import { FairQueue, Fifo } from './fair-queue.ts';

export interface WorkqueueOptions<K extends string = string> {
  /** Returns a key's share (see `FairQueue`) whenever it is queued. Absent: one share for all. */
  readonly shareOf?: (key: K) => string;
  /** Maximum keys of one share that workers process at once; default unlimited. */
  readonly maxPerShare?: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** Delays of `addRateLimited`; default 5 ms, doubling with each failure up to 60 s. */
  readonly backoff?: BackoffOptions;
  readonly onDepth?: (depth: number) => void;
  /** Called with the time that a key waited, from when it was due until a worker received it. */
  readonly onWaited?: (waitedMs: number) => void;
}

/** A key that waits to be processed (is dirty), is being processed, or both. */
interface Item<K> {
  readonly key: K;
  /** Share of the key (see `FairQueue`), determined when the key was last queued. */
  share: string;
  /** Time of the first `add` since a worker last received the key; undefined without one. */
  dirtySince: number | undefined;
  processing: boolean;
}

/**
 * The queue of a controller, with the semantics of client-go's util/workqueue:
 * - One worker at a time processes a key. A key added meanwhile is processed again after `done`.
 * - A waiting key that is added again is processed once.
 * - Shares are served round robin, and within a share the order is first come, first served. With
 *   one share, the default, this is the order of client-go.
 * - A key that is added twice with a delay keeps the earlier time.
 */
export class Workqueue<K extends string> {
  readonly #options: WorkqueueOptions<K>;
  readonly #backoff: BackoffOptions;
  /** Keys that wait or are being processed. A map for each would need twice as many lookups. */
  readonly #items = new Map<K, Item<K>>();
  readonly #queue: FairQueue<Item<K>>;
  readonly #getters = new Fifo<(key: K | undefined) => void>();
  readonly #delayed = new Map<K, { readonly at: number; readonly timer: Timer }>();
  readonly #failures = new Map<K, number>();
  readonly #idle: (() => void)[] = [];
  #processing = 0;
  #shutDown = false;

  constructor(options: WorkqueueOptions<K>) {
    this.#options = options;
    this.#queue = new FairQueue(options);
    this.#backoff = options.backoff ?? { baseMs: 5, capMs: 60_000 };
  }

  /** Number of keys that wait for a worker, without delayed keys. */
  get depth(): number {
    return this.#queue.size;
  }

  add(key: K): void {
    if (this.#shutDown) return;
    const item = this.#items.get(key);
    if (item !== undefined) {
      item.dirtySince ??= this.#options.clock.monotonic();
      return;
    }
    const added = {
      key,
      share: '',
      dirtySince: this.#options.clock.monotonic(),
      processing: false,
    };
    this.#items.set(key, added);
    this.#enqueue(added);
  }

  /**
   * Adds the key after a delay, or at once if the delay is not positive. The delay is at least one
   * millisecond: a shorter timer may end before the clock shows the time for which the caller
   * waits, and the caller would add the key again.
   */
  addAfter(key: K, delayMs: number): void {
    if (this.#shutDown) return;
    if (!(delayMs > 0)) {
      this.add(key);
      return;
    }
    const { clock } = this.#options;
    const waitMs = Math.max(delayMs, 1);
    const at = clock.monotonic() + waitMs;
    const present = this.#delayed.get(key);
    if (present !== undefined && present.at <= at) return;
    present?.timer.cancel();
    const timer = clock.after(waitMs, () => {
      this.#delayed.delete(key);
      this.add(key);
    });
    this.#delayed.set(key, { at, timer });
  }

  /** Adds the key after a delay that grows with each call until `forget`, at least `minDelayMs`. */
  addRateLimited(key: K, minDelayMs = 0): void {
    if (this.#shutDown) return;
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    this.addAfter(
      key,
      Math.max(minDelayMs, backoffDelayMs(this.#backoff, failures, this.#options.random)),
    );
  }

  /** Resets the failures of the key. The key keeps its place in the queue. */
  forget(key: K): void {
    this.#failures.delete(key);
  }

  /** Returns the number of `addRateLimited` calls for the key since `forget`. */
  failures(key: K): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Resolves with the next key; the worker calls `done` afterwards. Undefined after `shutDown`. */
  get(): Promise<K | undefined> {
    const item = this.#queue.shift();
    if (item !== undefined) {
      this.#handOut(item);
      return Promise.resolve(item.key);
    }
    if (this.#shutDown) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#getters.push(resolve);
    });
  }

  done(key: K): void {
    const item = this.#items.get(key);
    if (item?.processing !== true) return;
    item.processing = false;
    this.#processing--;
    this.#queue.release(item.share);
    if (item.dirtySince === undefined) this.#items.delete(key);
    else this.#enqueue(item);
    this.#serve();
    this.#settleIdle();
  }

  /** Drops waiting keys and accepts no more. Resolves when no key is being processed. */
  shutDown(): Promise<void> {
    this.#shutDown = true;
    for (const { timer } of this.#delayed.values()) timer.cancel();
    this.#delayed.clear();
    this.#failures.clear();
    this.#queue.clear();
    for (const item of this.#items.values()) {
      item.dirtySince = undefined;
      if (!item.processing) this.#items.delete(item.key);
    }
    this.#options.onDepth?.(0);
    while (this.#getters.size > 0) this.#getters.shift()?.(undefined);
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.#settleIdle();
    });
  }

  #enqueue(item: Item<K>): void {
    item.share = this.#options.shareOf?.(item.key) ?? '';
    this.#queue.push(item.share, item);
    this.#serve();
    if (item.dirtySince !== undefined) this.#options.onDepth?.(this.#queue.size);
  }

  #serve(): void {
    while (this.#getters.size > 0) {
      const item = this.#queue.shift();
      if (item === undefined) break;
      this.#handOut(item);
      this.#getters.shift()?.(item.key);
    }
  }

  #handOut(item: Item<K>): void {
    const { onDepth, onWaited, clock } = this.#options;
    const since = item.dirtySince;
    item.dirtySince = undefined;
    item.processing = true;
    this.#processing++;
    onDepth?.(this.#queue.size);
    if (since !== undefined) onWaited?.(clock.monotonic() - since);
  }

  #settleIdle(): void {
    if (this.#processing > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
