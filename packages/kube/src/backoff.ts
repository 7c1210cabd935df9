export interface BackoffOptions {
  /** The first delay. */
  readonly baseMs: number;
  /** No delay is longer, jitter aside. */
  readonly capMs: number;
  /** Each delay is so many times the one before; 2 by default. */
  readonly factor?: number;
  /** The largest share of a delay that is added at random, so that many waiters spread out; 0 by default. */
  readonly jitter?: number;
}

/** The delay before attempt `failures + 1`: base · factor^(failures - 1), capped, plus jitter. `failures` counts from 1. */
export function backoffDelayMs(options: BackoffOptions, failures: number, random: () => number): number {
  const { baseMs, capMs, factor = 2, jitter = 0 } = options;
  // The power overflows to Infinity, never to NaN, and the cap takes that.
  const delayMs = Math.min(capMs, baseMs * factor ** Math.max(0, failures - 1));
  return jitter === 0 ? delayMs : delayMs * (1 + jitter * random());
}
