import type { Clock, Timer } from './clock.ts';

/** Aborts its signal when nothing has been heard for too long. One timer, however much is heard. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #silenceMs: number;
  readonly #abort = new AbortController();
  #heardAt: number;
  #timer: Timer;

  constructor(clock: Clock, silenceMs: number) {
    this.#clock = clock;
    this.#silenceMs = silenceMs;
    this.#heardAt = clock.monotonic();
    this.#timer = this.#arm(silenceMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  heard(): void {
    this.#heardAt = this.#clock.monotonic();
  }

  stop(): void {
    this.#timer.cancel();
  }

  #arm(delayMs: number): Timer {
    return this.#clock.after(delayMs, () => {
      const left = this.#heardAt + this.#silenceMs - this.#clock.monotonic();
      if (left > 0) this.#timer = this.#arm(left);
      else this.#abort.abort(new Error(`nothing was heard for ${this.#silenceMs} ms`));
    });
  }
}
