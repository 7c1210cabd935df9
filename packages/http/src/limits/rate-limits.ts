import type { Runtime, CounterOf } from '@conversation-operator/base/runtime';
import { Refusal } from '../refusal.ts';
import { subscriberOf } from './client-address.ts';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { LRUCache } from 'lru-cache';

interface Bucket {
  readonly tokens: TokenBucket;
  isRefusing: boolean;
}

interface Taken {
  readonly allowed: boolean;
  /** Whether this is the first refusal after an allowed request. */
  readonly isFirstRefusal: boolean;
  readonly remaining: number;
  /** Delay before the next token; 0 if one is available. */
  readonly retryAfterMs: number;
  /** Delay before the bucket is full. */
  readonly fullAfterMs: number;
}

interface TokenBucketOptions {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly perSecond: number;
  /** Maximum number of tokens: the size of a full bucket. */
  readonly burst: number;
  /** Maximum number of missing tokens after `charge`; default: no limit. */
  readonly maxDebt?: number;
  /** Maximum number of buckets. The least recently used one is dropped, and starts full again. */
  readonly capacity: number;
}

/** A token bucket per name. */
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

  waitMs(name: string): number {
    return Math.max(0, this.#bucketOf(name).tokens.readyAt - this.options.clock.monotonic());
  }

  /** Takes more tokens for a call with a higher cost, so that the next calls wait. */
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

export interface RateLimitOptions {
  /** Maximum reads per second of one owner, with all its keys; 0: no limit. */
  readonly readsPerSecond?: number;
  /** Maximum writes per second of one owner, with all its keys; 0: no limit. */
  readonly writesPerSecond?: number;
  /** Maximum invalid keys per minute, and at once, from an address or IPv6 /64; 0: no limit. */
  readonly failedKeysPerMinute?: number;
}

export type RequestKind = 'reads' | 'writes';
type Limit = RequestKind | 'failed-keys';

/** Maximum burst of an owner, in seconds of its rate. */
const burstSeconds = 2;
/** Minimum burst of an owner: a page of a web UI opens with 32 requests at once. */
const smallestBurst: Readonly<Record<RequestKind, number>> = { reads: 64, writes: 16 };
/** Maximum number of addresses with a bucket, which together take about 5 MB of memory. */
const maxAddresses = 20_000;
const maxOwners = 20_000;

/** A response up to this size counts as one request, each further `bytesPerRequest` as another. */
const freeAnswerBytes = 256 * 1024;
const bytesPerRequest = 32 * 1024;
/** A body, or a stored object that is rewritten, counts as one more write per this many bytes. */
const bytesPerWrite = 64 * 1024;
const inSeconds = (milliseconds: number): number => Math.ceil(milliseconds / 1000);

type Headers = Readonly<Record<string, string>>;

/** Returns headers in the format of draft-ietf-httpapi-ratelimit-headers-10. */
const headersOf = (
  limit: Limit,
  { options: { burst, perSecond } }: TokenBuckets,
  { allowed, remaining, retryAfterMs, fullAfterMs }: Taken,
): Headers => ({
  'ratelimit-policy': `"${limit}";q=${burst};w=${Math.ceil(burst / perSecond)}`,
  ratelimit: `"${limit}";r=${remaining};t=${inSeconds(fullAfterMs)}`,
  ...(allowed ? {} : { 'retry-after': String(inSeconds(retryAfterMs)) }),
});

const tooManyAttempts = (headers: Headers): Refusal =>
  new Refusal(
    'too-many-attempts',
    'Too many requests without a valid API key came from your address. Try again later.',
    { headers },
  );

export interface RateLimitsOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly limits: RateLimitOptions;
  readonly metrics: { readonly rateLimited: CounterOf<'limit'> };
}

/** Limits requests of each owner, and invalid keys of each client address, on this replica. */
export class RateLimits {
  readonly #options: RateLimitsOptions;
  readonly #owners: Readonly<Record<RequestKind, TokenBuckets | undefined>>;
  readonly #addresses: TokenBuckets | undefined;

  constructor(options: RateLimitsOptions) {
    const { clock, limits } = options;
    this.#options = options;
    const bucketsOf = (perSecond: number, burst: number, capacity: number) =>
      perSecond === 0 ? undefined : new TokenBuckets({ clock, perSecond, burst, capacity });
    const ofOwners = (kind: RequestKind, perSecond = 0) => {
      const burst = Math.ceil(Math.max(smallestBurst[kind], perSecond * burstSeconds));
      return bucketsOf(perSecond, burst, maxOwners);
    };
    this.#owners = {
      reads: ofOwners('reads', limits.readsPerSecond),
      writes: ofOwners('writes', limits.writesPerSecond),
    };
    const perMinute = limits.failedKeysPerMinute ?? 0;
    this.#addresses = bucketsOf(perMinute / 60, perMinute, maxAddresses);
  }

  /** Counts a request of an owner, and returns headers. Throws `rate-limited` beyond the limit. */
  request(owner: string, kind: RequestKind): Headers {
    const buckets = this.#owners[kind];
    if (buckets === undefined) return {};
    const taken = buckets.take(owner);
    const headers = headersOf(kind, buckets, taken);
    if (taken.allowed) return headers;
    this.#options.metrics.rateLimited.inc({ limit: kind });
    if (taken.isFirstRefusal)
      this.#options.logger.warn('Rate of an owner limited', { owner, limit: kind });
    throw new Refusal(
      'rate-limited',
      `One owner may make ${buckets.options.perSecond} ${kind} a second. Try again later.`,
      { headers },
    );
  }

  /** Counts a large response as several requests, because others wait while it is serialized. */
  answered(owner: string, kind: RequestKind, bytes: number): void {
    if (bytes > freeAnswerBytes)
      this.charge(owner, kind, (bytes - freeAnswerBytes) / bytesPerRequest);
  }

  /** Counts a read of the store by a request, and a large object as several reads. */
  read(owner: string, bytes: number): void {
    this.charge(owner, 'reads', 1 + Math.floor(bytes / bytesPerRequest));
  }

  /** Counts a large write as several, because every process that watches the store reads it. */
  written(owner: string, bytes: number): void {
    this.charge(owner, 'writes', Math.floor(bytes / bytesPerWrite));
  }

  /** Counts additional requests for a request with a higher cost. */
  charge(owner: string, kind: RequestKind, requests: number): void {
    if (requests > 0) this.#owners[kind]?.charge(owner, Math.ceil(requests));
  }

  /** Counts a request without a valid key (401). Beyond the limit, throws `too-many-attempts`. */
  failedKey(address: string): void {
    const buckets = this.#addresses;
    if (buckets === undefined) return;
    const taken = buckets.take(subscriberOf(address));
    if (taken.allowed) return;
    this.#options.metrics.rateLimited.inc({ limit: 'failed-keys' });
    if (taken.isFirstRefusal)
      this.#options.logger.warn('Too many requests without a valid key', { address });
    throw tooManyAttempts(headersOf('failed-keys', buckets, taken));
  }

  /** Throws `too-many-attempts` for an address whose next failure `failedKey` would refuse. */
  refuseFailing(address: string): void {
    const waitMs = this.#addresses?.waitMs(subscriberOf(address)) ?? 0;
    if (waitMs > 0) throw tooManyAttempts({ 'retry-after': String(inSeconds(waitMs)) });
  }
}
