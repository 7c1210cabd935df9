import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { Clock } from '@conversation-operator/base/clock';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import { maxPoolReplicas, type SandboxPoolSpec } from '../../resources/sandbox-pool.ts';
import { durationMs } from '../../resources/sandbox-template.ts';

type Refill = SandboxPoolSpec['refill'];

/** Delay after a spare that did not boot: doubled with each in a row. */
const failureBackoff = { baseMs: 10_000, capMs: 5 * 60_000 };
/** Delay before a pool whose next spare only waits for another one to boot is reconciled again. */
const probeMs = 5_000;

/** At most `maxPerMinute` tokens in each minute, a sixth of them at once. */
function bucketOf({ maxPerMinute }: Refill): TokenBucket {
  const burst = Math.max(1, Math.floor(maxPerMinute / 6));
  return new TokenBucket({ burst, intervalMs: 60_000 / Math.max(1, maxPerMinute - burst) });
}

/**
 * PoolPace says when a pool may create spares: `refill.maxPerMinute` bounds all of them, the
 * replacement of a claimed spare comes `refill.delay` after the claim, whatever claims follow, and
 * spares that do not boot hold all others back, for longer with each in a row.
 */
export class PoolPace {
  readonly #clock: Clock;
  #refill: Refill;
  #bucket: TokenBucket;
  /** Monotonic times of the last claims, the oldest first. */
  readonly #claims: number[] = [];
  #failures: number;
  /** Wall clock time of the last failure. */
  #failedAt: number;
  /** Monotonic time from which a spare may be created again. */
  #readyAt: number;

  /** A new leader waits as long as the failures before it demand. */
  constructor(clock: Clock, refill: Refill, failures: number) {
    this.#clock = clock;
    this.#refill = refill;
    this.#bucket = bucketOf(refill);
    this.#failures = failures;
    this.#failedAt = clock.now();
    this.#readyAt = failures === 0 ? 0 : clock.monotonic() + this.#failureDelayMs;
  }

  /** Number of spares in a row that have not booted. */
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

  /** The API server has refused a spare. */
  refused(): void {
    this.#readyAt = this.#clock.monotonic() + failureBackoff.baseMs;
  }

  /** A spare has not booted. */
  failed(): void {
    this.#failures += 1;
    this.#failedAt = this.#clock.now();
    this.#readyAt = this.#clock.monotonic() + this.#failureDelayMs;
  }

  /** A spare that was created after the last failure and has booted ends the failures in a row. */
  booted(createdAt: number): void {
    if (createdAt >= this.#failedAt) this.#failures = 0;
  }

  /** Number of spares that may be created now. */
  get allowance(): number {
    const now = this.#clock.monotonic();
    return now < this.#readyAt ? 0 : this.#bucket.availableAt(now);
  }

  /** Number of claimed spares whose replacements come later. */
  get delayed(): number {
    const delayMs = durationMs(this.#refill.delay);
    const now = this.#clock.monotonic();
    while ((this.#claims[0] ?? now) + delayMs <= now && this.#claims.length > 0)
      this.#claims.shift();
    return this.#claims.length;
  }

  /** Milliseconds until the first of `held` missing spares may be created. */
  nextMs(held: number): number {
    const claimedAt = this.#claims[this.delayed - held];
    const dueAt = claimedAt === undefined ? 0 : claimedAt + durationMs(this.#refill.delay);
    const at = Math.max(this.#readyAt, this.#bucket.readyAt, dueAt);
    const nextMs = Math.ceil(at - this.#clock.monotonic());
    // A spare that boots after a failure is awaited; its events bring the next reconcile.
    return nextMs > 0 ? nextMs : probeMs;
  }
}
