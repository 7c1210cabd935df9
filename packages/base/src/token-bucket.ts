export interface TokenBucketOptions {
  /** Maximum tokens that are taken at once after an idle time. */
  readonly burst: number;
  /** Mean time between two tokens after that, in milliseconds. */
  readonly intervalMs: number;
  /** Maximum tokens that are taken in advance; default unlimited. */
  readonly maxDebt?: number | undefined;
}

/**
 * A token bucket by the generic cell rate algorithm (ITU-T I.371). Pure: times are milliseconds of
 * a clock that never decreases, which the caller reads.
 */
export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #fullAt = 0;
  #heldUntil = 0;

  constructor(options: TokenBucketOptions) {
    this.#options = options;
  }

  get fullAt(): number {
    return this.#fullAt;
  }

  get readyAt(): number {
    const { burst, intervalMs } = this.#options;
    return Math.max(this.#heldUntil, this.#fullAt - (burst - 1) * intervalMs);
  }

  availableAt(now: number): number {
    const { burst, intervalMs } = this.#options;
    if (now < this.readyAt) return 0;
    return Math.min(burst, Math.floor(burst - Math.max(0, this.#fullAt - now) / intervalMs));
  }

  /** Takes tokens whether they are available or not, which delays later ones. */
  take(now: number, tokens = 1): void {
    const { burst, intervalMs, maxDebt = Infinity } = this.#options;
    const fullAt = Math.max(now, this.#fullAt) + tokens * intervalMs;
    this.#fullAt = Math.min(fullAt, now + (burst + maxDebt) * intervalMs);
  }

  hold(until: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, until);
  }
}
