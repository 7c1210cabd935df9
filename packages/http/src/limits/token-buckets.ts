import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { LRUCache } from 'lru-cache';

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

/** A token bucket for each name, of at most `capacity` names. */
export class TokenBuckets {
  readonly options: TokenBucketOptions;
  readonly #buckets: LRUCache<string, Bucket>;

  constructor(options: TokenBucketOptions) {
    this.options = options;
    this.#buckets = recentlyUsed(options.capacity);
  }

  get size(): number {
    return this.#buckets.size;
  }

  take(name: string): Taken {
    const now = this.options.clock.monotonic();
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
    return Math.max(0, this.#bucketOf(name).tokens.readyAt - this.options.clock.monotonic());
  }

  /** Takes further tokens for a call whose cost was higher, so that the next calls wait. */
  charge(name: string, tokens: number): void {
    this.#bucketOf(name).tokens.take(this.options.clock.monotonic(), tokens);
  }

  #bucketOf(name: string): Bucket {
    const known = this.#buckets.get(name);
    if (known !== undefined) return known;
    const { burst, maxDebt, perSecond } = this.options;
    const tokens = new TokenBucket({ burst, maxDebt, intervalMs: 1000 / perSecond });
    const bucket = { tokens, isRefusing: false };
    this.#buckets.set(name, bucket);
    return bucket;
  }
}
