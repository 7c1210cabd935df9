import type { Clock, Timer } from '@conversation-operator/base/clock';

/**
 * Calls `onIdle` once, `idleMs` after the last `touch`. A touch is cheap: it sets no timer; the
 * timer checks the time when it fires.
 */
export class IdleTimer {
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #onIdle: () => void;
  #lastMs: number;
  #timer: Timer | undefined;

  constructor(options: {
    readonly clock: Clock;
    readonly idleMs: number;
    readonly onIdle: () => void;
  }) {
    this.#clock = options.clock;
    this.#idleMs = options.idleMs;
    this.#onIdle = options.onIdle;
    this.#lastMs = options.clock.monotonic();
    this.#set(options.idleMs);
  }

  touch(): void {
    this.#lastMs = this.#clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #set(delayMs: number): void {
    this.#timer = this.#clock.after(delayMs, () => {
      const leftMs = this.#lastMs + this.#idleMs - this.#clock.monotonic();
      if (leftMs > 0) this.#set(leftMs);
      else this.#onIdle();
    });
  }
}
