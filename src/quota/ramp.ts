export interface RampOptions {
  /** How many may pass at once after a quiet time. */
  readonly burst: number;
  /** Mean time between two that pass after that, in milliseconds. */
  readonly intervalMs: number;
}

/**
 * A token bucket by the generic cell rate algorithm (ITU-T I.371): bounds how fast something may happen. Pure: times are
 * milliseconds of a clock that never goes back, given by the caller.
 */
export class Ramp {
  readonly #options: RampOptions;
  /** When the bucket is full again. */
  #fullAt = 0;
  #heldUntil = 0;

  constructor(options: RampOptions) {
    this.#options = options;
  }

  /** From when on the next one may pass. */
  get readyAt(): number {
    const { burst, intervalMs } = this.#options;
    return Math.max(this.#heldUntil, this.#fullAt - (burst - 1) * intervalMs);
  }

  /** Counts one that has passed. */
  take(now: number): void {
    this.#fullAt = Math.max(now, this.#fullAt) + this.#options.intervalMs;
  }

  /** Lets none pass before `until`. */
  hold(until: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, until);
  }
}
