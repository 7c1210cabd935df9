import type { Clock } from '../../kube/clock.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { subscriberOf } from './client-address.ts';
import { TokenBuckets, type Taken } from './token-buckets.ts';

export interface RateLimitOptions {
  /** Of one key; 0: no limit. */
  readonly readsPerSecond?: number;
  /** Of one key; 0: no limit. */
  readonly writesPerSecond?: number;
  /** Of one client address (of IPv6 its /64), also at once; 0: no limit. */
  readonly failedKeysPerMinute?: number;
}

export type RequestKind = 'reads' | 'writes';
type Limit = RequestKind | 'failed-keys';

/** How much of a key's rate it may use at once, in seconds. */
const burstSeconds = 2;
/** A page of the web UI opens with 32 requests at once. */
const smallestBurst: Readonly<Record<RequestKind, number>> = { reads: 64, writes: 16 };
/** What an attacker with many addresses may cost: some 5 MB. */
const maxAddresses = 20_000;
const maxKeys = 20_000;

/** What one request may be answered with; of a larger answer each so many bytes count as one more. */
const freeAnswerBytes = 256 * 1024;
const bytesPerRequest = 32 * 1024;

const inSeconds = (milliseconds: number): number => Math.ceil(milliseconds / 1000);

/** In the form of draft-ietf-httpapi-ratelimit-headers-10. */
const policyHeader = (limit: Limit, { burst, perSecond }: TokenBuckets): string =>
  `"${limit}";q=${burst};w=${Math.ceil(burst / perSecond)}`;
const stateHeader = (limit: Limit, { remaining, fullAfterMs }: Taken): string => `"${limit}";r=${remaining};t=${inSeconds(fullAfterMs)}`;

type Headers = Readonly<Record<string, string>>;

/** How often each key may ask, and each client address guess, on this replica. */
export class RateLimits {
  readonly #keys: Readonly<Record<RequestKind, TokenBuckets | undefined>>;
  readonly #addresses: TokenBuckets | undefined;
  readonly #metrics: Metrics;
  readonly #logger: Logger;

  constructor(options: { limits: RateLimitOptions; clock: Clock; metrics: Metrics; logger: Logger }) {
    const { clock, limits } = options;
    const ofKeys = (kind: RequestKind, perSecond = 0) =>
      perSecond === 0
        ? undefined
        : new TokenBuckets({
            clock,
            perSecond,
            burst: Math.ceil(Math.max(smallestBurst[kind], perSecond * burstSeconds)),
            capacity: maxKeys,
          });
    this.#keys = { reads: ofKeys('reads', limits.readsPerSecond), writes: ofKeys('writes', limits.writesPerSecond) };
    const perMinute = limits.failedKeysPerMinute ?? 0;
    this.#addresses =
      perMinute === 0 ? undefined : new TokenBuckets({ clock, perSecond: perMinute / 60, burst: perMinute, capacity: maxAddresses });
    this.#metrics = options.metrics;
    this.#logger = options.logger;
  }

  /** Counts a request of a key. Returns what its answer says about the limit; throws `rate-limited`. */
  request(keyName: string, kind: RequestKind): Headers {
    const buckets = this.#keys[kind];
    if (buckets === undefined) return {};
    const taken = buckets.take(keyName);
    const headers = { 'ratelimit-policy': policyHeader(kind, buckets), ratelimit: stateHeader(kind, taken) };
    if (taken.allowed) return headers;
    this.#metrics.rateLimited.inc({ limit: kind });
    if (taken.isFirstRefusal) this.#logger.warn('Rate of a key limited', { key: keyName, limit: kind });
    throw new ProblemError('rate-limited', `This key may make ${buckets.perSecond} ${kind} a second. Try again later.`, {
      headers: { ...headers, 'retry-after': String(inSeconds(taken.retryAfterMs)) },
    });
  }

  /** Counts a large answer as several: making it takes time that the requests of others wait for. */
  answered(keyName: string, kind: RequestKind, bytes: number): void {
    if (bytes > freeAnswerBytes) this.#keys[kind]?.charge(keyName, Math.ceil((bytes - freeAnswerBytes) / bytesPerRequest));
  }

  /** Counts an attempt without a valid key. Throws `too-many-attempts` once there were too many; else the caller says 401. */
  failedKey(address: string): void {
    const buckets = this.#addresses;
    if (buckets === undefined) return;
    const taken = buckets.take(subscriberOf(address));
    if (taken.allowed) return;
    this.#metrics.rateLimited.inc({ limit: 'failed-keys' });
    if (taken.isFirstRefusal) this.#logger.warn('Too many requests without a valid key', { address });
    throw new ProblemError('too-many-attempts', 'Too many requests without a valid API key came from your address. Try again later.', {
      headers: {
        'ratelimit-policy': policyHeader('failed-keys', buckets),
        ratelimit: stateHeader('failed-keys', taken),
        'retry-after': String(inSeconds(taken.retryAfterMs)),
      },
    });
  }
}
