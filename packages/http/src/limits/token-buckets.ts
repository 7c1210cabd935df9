import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { Clock } from '@conversation-operator/base/clock';
import { LRUCache } from 'lru-cache';

interface Bucket {
  readonly tokens: TokenBucket;
  isRefusing: boolean;
}

export interface Taken {
  readonly allowed: boolean;
  /** The first refusal since something was allowed. */
  readonly isFirstRefusal: boolean;
  readonly remaining: number;
  /** Delay before one more is allowed; 0 where one is allowed now. */
  readonly retryAfterMs: number;
  /** Delay before the bucket is full. */
  readonly fullAfterMs: number;
}

export interface TokenBucketOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly perSecond: number;
  /** Maximum number at once: the size of a full bucket. */
  readonly burst: number;
  /** Maximum number that is charged in advance; default unlimited. */
  readonly maxDebt?: number;
  /**
   * Maximum number of names with a bucket. Beyond it, the bucket of the least recently used name is
   * dropped, and starts full again.
   */
  readonly capacity: number;
}

/**
 * A token bucket for each name. The memory is bounded by `capacity`, however many names there are.
 */
export class TokenBuckets {
  readonly perSecond: number;
  readonly burst: number;
  readonly #maxDebt: number | undefined;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #buckets: LRUCache<string, Bucket>;

  constructor({ clock, perSecond, burst, maxDebt, capacity }: TokenBucketOptions) {
    this.perSecond = perSecond;
    this.burst = burst;
    this.#maxDebt = maxDebt;
    this.#clock = clock;
    this.#buckets = new LRUCache({ max: capacity });
  }

  get size(): number {
    return this.#buckets.size;
  }

  take(name: string): Taken {
    const now = this.#clock.monotonic();
    const bucket = this.#bucketOf(name);
    const { tokens } = bucket;
    const allowed = tokens.readyAt <= now;
    const isFirstRefusal = !allowed && !bucket.isRefusing;
    bucket.isRefusing = !allowed;
    if (allowed) tokens.take(now);
    return {
      allowed,
      isFirstRefusal,
      remaining: tokens.availableAt(now),
      retryAfterMs: allowed ? 0 : tokens.readyAt - now,
      fullAfterMs: Math.max(0, tokens.fullAt - now),
    };
  }

  /** Delay before a token is available. */
  waitMs(name: string): number {
    return Math.max(0, this.#bucketOf(name).tokens.readyAt - this.#clock.monotonic());
  }

  /** Takes further tokens for a call whose cost was higher, so that the next calls wait. */
  charge(name: string, tokens: number): void {
    this.#bucketOf(name).tokens.take(this.#clock.monotonic(), tokens);
  }

  #bucketOf(name: string): Bucket {
    const known = this.#buckets.get(name);
    if (known !== undefined) return known;
    const options = { burst: this.burst, maxDebt: this.#maxDebt };
    const tokens = new TokenBucket({ ...options, intervalMs: 1000 / this.perSecond });
    const bucket = { tokens, isRefusing: false };
    this.#buckets.set(name, bucket);
    return bucket;
  }
}
