import type { Clock } from '@conversation-operator/kube/clock';
import { LruMap } from '@conversation-operator/kube/lru-map';

interface Bucket {
  tokens: number;
  /** Monotonic milliseconds at which `tokens` was right. */
  at: number;
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
  readonly clock: Clock;
  readonly perSecond: number;
  /** Maximum number at once: the size of a full bucket. */
  readonly burst: number;
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
  readonly #clock: Clock;
  readonly #buckets: LruMap<string, Bucket>;

  constructor({ clock, perSecond, burst, capacity }: TokenBucketOptions) {
    this.perSecond = perSecond;
    this.burst = burst;
    this.#clock = clock;
    this.#buckets = new LruMap(capacity);
  }

  get size(): number {
    return this.#buckets.size;
  }

  take(name: string): Taken {
    const now = this.#clock.monotonic();
    const bucket = this.#buckets.get(name) ?? this.#newBucket(name, now);
    bucket.tokens = Math.min(
      this.burst,
      bucket.tokens + ((now - bucket.at) / 1000) * this.perSecond,
    );
    bucket.at = now;
    const allowed = bucket.tokens >= 1;
    const isFirstRefusal = !allowed && !bucket.isRefusing;
    bucket.isRefusing = !allowed;
    if (allowed) bucket.tokens -= 1;
    const msUntil = (tokens: number) =>
      Math.max(0, ((tokens - bucket.tokens) / this.perSecond) * 1000);
    return {
      allowed,
      isFirstRefusal,
      remaining: Math.max(0, Math.floor(bucket.tokens)),
      retryAfterMs: allowed ? 0 : msUntil(1),
      fullAfterMs: msUntil(this.burst),
    };
  }

  /**
   * Takes further tokens for a call whose cost was higher. The bucket may become negative, so that
   * the next calls wait.
   */
  charge(name: string, tokens: number): void {
    const bucket = this.#buckets.get(name) ?? this.#newBucket(name, this.#clock.monotonic());
    bucket.tokens -= tokens;
  }

  #newBucket(name: string, now: number): Bucket {
    const bucket: Bucket = { tokens: this.burst, at: now, isRefusing: false };
    this.#buckets.set(name, bucket);
    return bucket;
  }
}
