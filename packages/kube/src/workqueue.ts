import { backoffDelayMs, type BackoffOptions } from './backoff.ts';
import type { Clock, Timer } from './clock.ts';
import { DelayHeap } from './delay-heap.ts';
import { FairQueue } from './fair-queue.ts';
import { Fifo } from './fifo.ts';

export interface WorkqueueOptions<K extends string = string> {
  /** The share that a key belongs to, asked each time that the key begins to wait. By default there is one share for all. */
  readonly shareOf?: (key: K) => string;
  /** Maximum keys of one share that are handed out at once; without limit by default. */
  readonly maxPerShare?: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** The delays of `addRateLimited`: 5 ms, doubled with each failure, at most 60 s, by default. */
  readonly backoff?: BackoffOptions;
  readonly onDepth?: (depth: number) => void;
  /** How long a key had to wait from when it was due until it was handed out. */
  readonly onWaited?: (waitedMs: number) => void;
}

/** A key that has to be handed out, or is. */
interface Item<K> {
  readonly key: K;
  /** The share that it waits in, or counts against. */
  share: string;
  /** Since when it has to be handed out: it waits in the queue, or for its `done`. */
  dirtySince: number | undefined;
  processing: boolean;
}

/**
 * The queue of a controller, with the semantics of client-go's util/workqueue:
 * - a key is handed out to one worker at a time; added meanwhile, it comes again after `done`;
 * - a key that waits and is added again is handed out once;
 * - first come, first served within a share, and round robin by share: with one share for all, as it is by default, that is client-go's
 *   order;
 * - a key that is added with a delay twice keeps the earlier time.
 */
export class Workqueue<K extends string> {
  readonly #options: WorkqueueOptions<K>;
  readonly #backoff: BackoffOptions;
  /** One look-up for everything that is known of a key: most of what a call costs when there are very many. */
  readonly #items = new Map<K, Item<K>>();
  readonly #queue: FairQueue<Item<K>>;
  readonly #getters = new Fifo<(key: K | undefined) => void>();
  readonly #delayed = new DelayHeap<K>();
  readonly #failures = new Map<K, number>();
  readonly #idle: (() => void)[] = [];
  #timer: { readonly at: number; readonly timer: Timer } | undefined;
  #processing = 0;
  #shutDown = false;

  constructor(options: WorkqueueOptions<K>) {
    this.#options = options;
    this.#queue = new FairQueue(options);
    this.#backoff = options.backoff ?? { baseMs: 5, capMs: 60_000 };
  }

  /** Keys that wait for a worker; delayed ones don't count. */
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
    const added = { key, share: '', dirtySince: this.#options.clock.monotonic(), processing: false };
    this.#items.set(key, added);
    this.#enqueue(added);
  }

  addAfter(key: K, delayMs: number): void {
    if (this.#shutDown) return;
    if (!(delayMs > 0)) {
      this.add(key);
      return;
    }
    this.#delayed.add(key, this.#options.clock.monotonic() + delayMs);
    this.#arm();
  }

  /** Adds after a delay that grows each time, until `forget`. A `leastDelayMs` that is longer counts instead. */
  addRateLimited(key: K, leastDelayMs = 0): void {
    if (this.#shutDown) return;
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    this.addAfter(key, Math.max(leastDelayMs, backoffDelayMs(this.#backoff, failures, this.#options.random)));
  }

  /** The next failure of this key counts as its first. Says nothing about its place in the queue. */
  forget(key: K): void {
    this.#failures.delete(key);
  }

  /** How often the key has been added rate-limited since it was forgotten. */
  failures(key: K): number {
    return this.#failures.get(key) ?? 0;
  }

  /** The next key, as soon as there is one; `done` must follow. Undefined: the queue is shut down, and the worker ends. */
  get(): Promise<K | undefined> {
    const item = this.#queue.shift();
    if (item !== undefined) {
      this.#handOut(item);
      return Promise.resolve(item.key);
    }
    // What is left to be drained may wait for room in its share.
    if (this.#shutDown && this.#queue.size === 0) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#getters.push(resolve);
    });
  }

  /** The worker has finished with the key. */
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

  /**
   * Takes nothing more and hands out nothing more, waiting keys are dropped. Resolves when every key that had been handed out
   * is done.
   */
  shutDown(): Promise<void> {
    this.#queue.clear();
    for (const item of this.#items.values()) {
      item.dirtySince = undefined;
      if (!item.processing) this.#items.delete(item.key);
    }
    this.#options.onDepth?.(0);
    return this.shutDownWithDrain();
  }

  /** Takes nothing more; what waits already is still handed out, except delayed keys. Resolves when every key is done. */
  shutDownWithDrain(): Promise<void> {
    this.#shutDown = true;
    this.#timer?.timer.cancel();
    this.#timer = undefined;
    this.#delayed.clear();
    this.#failures.clear();
    this.#serve();
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

  /** Gives workers that wait what may be handed out; those that wait for nothing any more end. */
  #serve(): void {
    while (this.#getters.size > 0) {
      const item = this.#queue.shift();
      if (item === undefined) break;
      this.#handOut(item);
      this.#getters.shift()?.(item.key);
    }
    if (!this.#shutDown || this.#queue.size > 0) return;
    for (let getter = this.#getters.shift(); getter !== undefined; getter = this.#getters.shift()) getter(undefined);
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
    if (this.#idle.length === 0 || this.#processing > 0 || this.#queue.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** One timer, for the earliest delayed key. */
  #arm(): void {
    const at = this.#delayed.nextAt;
    if (at === undefined || (this.#timer !== undefined && this.#timer.at <= at)) return;
    this.#timer?.timer.cancel();
    const { clock } = this.#options;
    const timer = clock.after(at - clock.monotonic(), () => {
      this.#timer = undefined;
      const now = clock.monotonic();
      for (let key = this.#delayed.takeDue(now); key !== undefined; key = this.#delayed.takeDue(now)) this.add(key);
      this.#arm();
    });
    this.#timer = { at, timer };
  }
}
