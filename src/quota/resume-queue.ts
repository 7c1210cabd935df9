import { OrderedSet } from './ordered-set.ts';
import { byResume } from './slot-order.ts';
import type { Slot } from './slot.ts';
import { TokenBucket, type TokenBucketOptions } from '@conversation-operator/base/token-bucket';

/** The slot of an owner that resumes first. */
interface Candidate {
  readonly slot: Slot;
  /** Sequence number of the owner's last automatic resume; 0 before the first. */
  readonly turn: number;
}

/** Unfinished work first; then owners take turns. */
const byTurn = (one: Candidate, other: Candidate): number =>
  Number(other.slot.unfinished) - Number(one.slot.unfinished) ||
  one.turn - other.turn ||
  byResume(one.slot, other.slot);

/** Default rate of automatic resumes in a namespace: each schedules a pod and attaches a volume. */
export const defaultResumeRate: TokenBucketOptions = { burst: 10, intervalMs: 1_000 };
/**
 * Delay before the next automatic resume after the deletion of a quota: it may be created again,
 * and a start is not evicted.
 */
const deletedQuotaDelayMs = 60_000;

/**
 * The automatic resumes of a namespace: one candidate of each owner that has room, at a bounded
 * rate. Pure.
 */
export class ResumeQueue {
  readonly #rate: TokenBucket;
  readonly #candidates = new OrderedSet(byTurn);
  readonly #byOwner = new Map<string, Candidate>();
  readonly #turns = new Map<string, number>();
  #lastTurn = 0;

  constructor(rate: TokenBucketOptions = defaultResumeRate) {
    this.#rate = new TokenBucket(rate);
  }

  /** Time of the next automatic resume; Infinity without a candidate. */
  get readyAt(): number {
    return this.#candidates.size > 0 ? this.#rate.readyAt : Infinity;
  }

  next(now: number): Slot | undefined {
    return this.readyAt <= now ? this.#candidates.first?.slot : undefined;
  }

  /** Sets the candidate of an owner; undefined: none. */
  offer(owner: string, slot: Slot | undefined): void {
    const before = this.#byOwner.get(owner);
    const turn = this.#turns.get(owner) ?? 0;
    if (before?.slot === slot && (slot === undefined || before?.turn === turn)) return;
    if (before !== undefined) this.#candidates.delete(before);
    this.#byOwner.delete(owner);
    if (slot === undefined) return;
    const candidate = { slot, turn };
    this.#byOwner.set(owner, candidate);
    this.#candidates.add(candidate);
  }

  /** Counts an automatic resume of an owner. */
  resumed(owner: string, now: number): void {
    this.#rate.take(now);
    this.#turns.set(owner, ++this.#lastTurn);
  }

  forgetOwner(owner: string): void {
    this.offer(owner, undefined);
    this.#turns.delete(owner);
  }

  quotaDeleted(now: number): void {
    this.#rate.hold(now + deletedQuotaDelayMs);
  }
}
