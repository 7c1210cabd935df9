export interface TokenBucketOptions {
  /** Maximum number of tokens that are available at once, after an idle time. */
  readonly burst: number;
  /** Time until the bucket gets its next token, in milliseconds. */
  readonly intervalMs: number;
  /** Maximum number of tokens that callers take in advance; default unlimited. */
  readonly maxDebt?: number | undefined;
}

/**
 * A token bucket by the generic cell rate algorithm (ITU-T I.371). The bucket reads no clock: the
 * caller passes times in milliseconds that never decrease.
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
    return this.readyAtFor(1);
  }

  /** Time at which this many tokens are available; more than `burst` are, once the bucket is full. */
  readyAtFor(tokens: number): number {
    const { burst, intervalMs } = this.#options;
    return Math.max(this.#heldUntil, this.#fullAt - Math.max(0, burst - tokens) * intervalMs);
  }

  availableAt(now: number): number {
    const { burst, intervalMs } = this.#options;
    if (now < this.readyAt) return 0;
    return Math.min(burst, Math.floor(burst - Math.max(0, this.#fullAt - now) / intervalMs));
  }

  /**
   * Takes tokens, even if none is available. Later tokens are then delayed. A negative number gives
   * tokens back.
   */
  take(now: number, tokens = 1): void {
    const { burst, intervalMs, maxDebt = Infinity } = this.#options;
    const fullAt = Math.max(now, this.#fullAt) + tokens * intervalMs;
    this.#fullAt = Math.min(fullAt, now + (burst + maxDebt) * intervalMs);
  }

  hold(until: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, until);
  }
}
