import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { Clock } from '@conversation-operator/base/clock';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import { maxPoolReplicas, type SandboxPoolSpec } from '../../resources/sandbox-pool.ts';
import { durationMs } from '../../resources/sandbox-template.ts';

type Refill = SandboxPoolSpec['refill'];

/** Delay after a warm sandbox that did not boot: doubled with each consecutive failure. */
const failureBackoff = { baseMs: 10_000, capMs: 5 * 60_000 };
/** Delay before the next reconcile of a pool that waits for a warm sandbox to boot. */
const probeMs = 5_000;

/** A bucket of at most `maxPerMinute` tokens in each minute, a sixth of them at once. */
function bucketOf({ maxPerMinute }: Refill): TokenBucket {
  const burst = Math.max(1, Math.floor(maxPerMinute / 6));
  return new TokenBucket({ burst, intervalMs: 60_000 / Math.max(1, maxPerMinute - burst) });
}

/**
 * Decides when a pool may create warm sandboxes. `refill.maxPerMinute` limits all creations. A
 * claimed sandbox is replaced `refill.delay` after its claim; later claims do not prolong that
 * delay. A failure to boot delays all further creations, longer with each consecutive failure.
 */
export class PoolPace {
  readonly #clock: Clock;
  #refill: Refill;
  #bucket: TokenBucket;
  /** Monotonic times of the last claims, the oldest first. */
  readonly #claims: number[] = [];
  #failures: number;
  #failedAt: number;
  /** Monotonic time from which a warm sandbox may be created again. */
  #readyAt: number;

  /** `failures` comes from the status of the pool: a new leader continues the back-off. */
  constructor(clock: Clock, refill: Refill, failures: number) {
    this.#clock = clock;
    this.#refill = refill;
    this.#bucket = bucketOf(refill);
    this.#failures = failures;
    this.#failedAt = clock.now();
    this.#readyAt = failures === 0 ? 0 : clock.monotonic() + this.#failureDelayMs;
  }

  /** Number of consecutive warm sandboxes that have not booted. */
  get failures(): number {
    return this.#failures;
  }

  get #failureDelayMs(): number {
    return backoffDelayMs(failureBackoff, this.#failures, () => 0);
  }

  setRefill(refill: Refill): void {
    if (refill.maxPerMinute !== this.#refill.maxPerMinute) this.#bucket = bucketOf(refill);
    this.#refill = refill;
  }

  claimed(): void {
    this.#claims.push(this.#clock.monotonic());
    if (this.#claims.length > maxPoolReplicas) this.#claims.shift();
  }

  created(): void {
    this.#bucket.take(this.#clock.monotonic());
  }

  /** Records that the API server has rejected a warm sandbox. */
  refused(): void {
    this.#readyAt = this.#clock.monotonic() + failureBackoff.baseMs;
  }

  failed(): void {
    this.#failures += 1;
    this.#failedAt = this.#clock.now();
    this.#readyAt = this.#clock.monotonic() + this.#failureDelayMs;
  }

  /** Records a boot. Resets the failures if the sandbox was created after the last failure. */
  booted(createdAt: number): void {
    if (createdAt >= this.#failedAt) this.#failures = 0;
  }

  get allowance(): number {
    const now = this.#clock.monotonic();
    return now < this.#readyAt ? 0 : this.#bucket.availableAt(now);
  }

  /** Number of claimed warm sandboxes whose replacements are delayed. */
  get delayed(): number {
    const delayMs = durationMs(this.#refill.delay);
    const now = this.#clock.monotonic();
    while ((this.#claims[0] ?? now) + delayMs <= now && this.#claims.length > 0)
      this.#claims.shift();
    return this.#claims.length;
  }

  /** Milliseconds until the first of `held` missing warm sandboxes may be created. */
  nextMs(held: number): number {
    const claimedAt = this.#claims[this.delayed - held];
    const dueAt = claimedAt === undefined ? 0 : claimedAt + durationMs(this.#refill.delay);
    const at = Math.max(this.#readyAt, this.#bucket.readyAt, dueAt);
    const nextMs = Math.ceil(at - this.#clock.monotonic());
    // Without another delay, the pool waits for a warm sandbox to boot, which causes an event.
    return nextMs > 0 ? nextMs : probeMs;
  }
}
