import type { Clock, Timer } from '@conversation-operator/base/clock';

export interface ClientPaceOptions {
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  /** Bytes that the client has taken, or sent, so far. */
  readonly moved: () => number;
  /** Called once, where the client is too slow. */
  readonly tooSlow: () => void;
  /** Minimum rate; 32 KiB a second by default. */
  readonly minBytesPerSecond?: number;
  /** Period of which the rate is judged, in milliseconds; 30 s by default. */
  readonly periodMs?: number;
}

/** Part of a period in which the transfer has waited for its client, so that the rate is its own. */
const waitingPart = 0.9;

/**
 * Judges how fast a client reads a long response, or sends a long body, which holds a place that
 * others wait for. A timeout alone would let a client keep the place by one byte at a time. A
 * transfer that waits for something else than its client may be as slow as that.
 */
export class ClientPace {
  readonly #options: ClientPaceOptions;
  readonly #periodMs: number;
  #timer: Timer;
  #movedBefore: number;
  #waitedMs = 0;
  /** Time since which the transfer waits for its client; undefined while it does not. */
  #waitingSinceMs: number | undefined;

  constructor(options: ClientPaceOptions) {
    this.#options = options;
    this.#periodMs = options.periodMs ?? 30_000;
    this.#movedBefore = options.moved();
    this.#timer = options.clock.after(this.#periodMs, this.#judge);
  }

  /** Waits for the client within `wait`. */
  async during<T>(wait: () => Promise<T>): Promise<T> {
    this.#waitingSinceMs = this.#options.clock.monotonic();
    try {
      return await wait();
    } finally {
      this.#count();
      this.#waitingSinceMs = undefined;
    }
  }

  end(): void {
    this.#timer.cancel();
  }

  #count(): void {
    if (this.#waitingSinceMs === undefined) return;
    const now = this.#options.clock.monotonic();
    this.#waitedMs += now - this.#waitingSinceMs;
    this.#waitingSinceMs = now;
  }

  #judge = (): void => {
    const { clock, moved, tooSlow, minBytesPerSecond = 32 * 1024 } = this.#options;
    this.#count();
    const bytes = moved() - this.#movedBefore;
    if (
      this.#waitedMs >= this.#periodMs * waitingPart &&
      bytes < (minBytesPerSecond * this.#waitedMs) / 1000
    ) {
      tooSlow();
      return;
    }
    this.#movedBefore += bytes;
    this.#waitedMs = 0;
    this.#timer = clock.after(this.#periodMs, this.#judge);
  };
}
