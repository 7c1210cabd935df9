import type { Clock, Timer } from '@conversation-operator/base/clock';

/**
 * Aborts its signal when `reset` was not called for `silenceMs`. The watchdog needs one timer,
 * however often `reset` is called.
 */
export class Watchdog {
  readonly #clock: Clock;
  readonly #silenceMs: number;
  readonly #abort = new AbortController();
  #resetAt: number;
  #timer: Timer;

  constructor(clock: Clock, silenceMs: number) {
    this.#clock = clock;
    this.#silenceMs = silenceMs;
    this.#resetAt = clock.monotonic();
    this.#timer = this.#arm(silenceMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  reset(): void {
    this.#resetAt = this.#clock.monotonic();
  }

  stop(): void {
    this.#timer.cancel();
  }

  #arm(delayMs: number): Timer {
    return this.#clock.after(delayMs, () => {
      const left = this.#resetAt + this.#silenceMs - this.#clock.monotonic();
      if (left > 0) this.#timer = this.#arm(left);
      else this.#abort.abort(new Error(`no event arrived for ${this.#silenceMs} ms`));
    });
  }
}
