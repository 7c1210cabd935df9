export interface BackoffOptions {
  readonly baseMs: number;
  /** Maximum delay, without jitter. */
  readonly capMs: number;
  /** Factor by which each further failure multiplies the delay; default 2. */
  readonly factor?: number;
  /** Maximum share of a delay that is added at random, to spread retries of clients; default 0. */
  readonly jitter?: number;
}

/** The delay before attempt `failures + 1`: base · factor^(failures - 1), capped, plus jitter. */
export function backoffDelayMs(
  options: BackoffOptions,
  failures: number,
  random: () => number,
): number {
  const { baseMs, capMs, factor = 2, jitter = 0 } = options;
  // The power overflows to Infinity, never to NaN, and `Math.min` replaces Infinity by the cap.
  const delayMs = Math.min(capMs, baseMs * factor ** Math.max(0, failures - 1));
  return jitter === 0 ? delayMs : delayMs * (1 + jitter * random());
}
