import type { Clock, Timer } from './clock.ts';

interface IdleTimerOptions {
  readonly clock: Clock;
  readonly idleMs: number;
  readonly onIdle: () => void;
}

/** Calls `onIdle` once, `idleMs` after the last `touch`, which is cheap, since it sets no timer. */
export class IdleTimer {
  readonly #options: IdleTimerOptions;
  #lastMs: number;
  #timer: Timer | undefined;

  constructor(options: IdleTimerOptions) {
    this.#options = options;
    this.#lastMs = options.clock.monotonic();
    this.#set(options.idleMs);
  }

  touch(): void {
    this.#lastMs = this.#options.clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #set(delayMs: number): void {
    const { clock, idleMs, onIdle } = this.#options;
    this.#timer = clock.after(delayMs, () => {
      const leftMs = this.#lastMs + idleMs - clock.monotonic();
      if (leftMs > 0) this.#set(leftMs);
      else onIdle();
    });
  }
}
