import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Freshness } from '@conversation-operator/kube/reflector';

/** The part of a cache that is watched. */
export interface WatchedCache {
  readonly freshness: Freshness;
}

/** Delay between two checks, and the time after which an interruption counts, in milliseconds. */
const checkMs = 1_000;
const staleMs = 10_000;

/**
 * Whether the caches have had no connection to the API server for longer than it takes to connect
 * again, so that a stream would show an old state as the present one.
 */
export class Staleness {
  readonly #caches: readonly WatchedCache[];
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #interruptedAtMs: number | undefined;
  #timer: Timer | undefined;

  constructor({
    caches,
    clock,
  }: {
    readonly caches: readonly WatchedCache[];
    readonly clock: Clock;
  }) {
    this.#caches = caches;
    this.#clock = clock;
  }

  get isStale(): boolean {
    return (
      this.#interruptedAtMs !== undefined &&
      this.#clock.monotonic() - this.#interruptedAtMs >= staleMs
    );
  }

  open(): void {
    this.#timer ??= this.#checkLater();
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Calls `listener` when the caches become stale; returns the function that ends this. */
  onStale(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #checkLater(): Timer {
    return this.#clock.after(checkMs, () => {
      this.#timer = this.#checkLater();
      this.#check();
    });
  }

  #check(): void {
    if (!this.#caches.some(({ freshness }) => freshness.isInterrupted)) {
      this.#interruptedAtMs = undefined;
      return;
    }
    this.#interruptedAtMs ??= this.#clock.monotonic();
    if (this.isStale) for (const listener of [...this.#listeners]) listener();
  }
}
