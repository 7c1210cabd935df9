import type { Clock, Timer } from '@conversation-operator/base/clock';

export interface ReadingPaceOptions {
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  /** Bytes that the client has taken so far. */
  readonly taken: () => number;
  /** Called once, where the client is too slow. */
  readonly tooSlow: () => void;
  /** Minimum rate; 32 KiB a second by default. */
  readonly minBytesPerSecond?: number;
}

/** Period of which the rate is judged, in milliseconds. */
const periodMs = 30_000;
/** Part of a period in which the response has waited for its client, so that the rate is its own. */
const waitingPart = 0.9;

/**
 * Judges how fast a client reads a long response, which holds a place that others wait for. A
 * timeout alone would let a client keep the place by one byte at a time. A response that waits for
 * its source, rather than for its client, may be as slow as the source.
 */
export class ReadingPace {
  readonly #options: ReadingPaceOptions;
  #timer: Timer;
  #takenBefore: number;
  #waitedMs = 0;
  /** Time since which the response waits for its client; undefined while it does not. */
  #waitingSinceMs: number | undefined;

  constructor(options: ReadingPaceOptions) {
    this.#options = options;
    this.#takenBefore = options.taken();
    this.#timer = options.clock.after(periodMs, this.#judge);
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
    const { clock, taken, tooSlow, minBytesPerSecond = 32 * 1024 } = this.#options;
    this.#count();
    const bytes = taken() - this.#takenBefore;
    if (
      this.#waitedMs >= periodMs * waitingPart &&
      bytes < (minBytesPerSecond * this.#waitedMs) / 1000
    ) {
      tooSlow();
      return;
    }
    this.#takenBefore += bytes;
    this.#waitedMs = 0;
    this.#timer = clock.after(periodMs, this.#judge);
  };
}
