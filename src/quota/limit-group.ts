import type { Cap } from '../resources/quota-caps.ts';
import type { QuotaRule } from '../resources/quota-rules.ts';
import { EvictionCandidates } from './eviction-candidates.ts';
import { OrderedSet } from './ordered-set.ts';
import { byCreation, byRequest, byResume, byResumeTime } from './slot-order.ts';
import type { Slot } from './slot.ts';

const mayBeEvicted = ({ state, stalledAt }: Slot): boolean =>
  state === 'running' || (state === 'starting' && stalledAt < Infinity);

/**
 * The sandboxes that share a limit: those of one owner, or of a namespace. Every change takes
 * logarithmic time.
 */
export class LimitGroup {
  /** Slots that count against the limit. */
  taken = 0;
  /** Taken slots that no decision has asked back. */
  holding = 0;
  /** Newcomers with work to do: all that wait, without the bare resumes. */
  demanding = 0;
  /** Sandboxes that count against `maxSandboxes`. */
  stored = 0;
  /** The lowest `maxSandboxes` of the quotas of this group. */
  cap: Cap | undefined;
  /** Stored sandboxes without a first decision. */
  readonly undecided = new OrderedSet(byCreation);
  readonly waiting = new OrderedSet(byRequest);
  /** Slots that may resume automatically now. */
  readonly resumable = new OrderedSet(byResume);
  /** Slots that resume automatically after a delay. */
  readonly #delayed = new OrderedSet(byResumeTime);
  readonly candidates = new EvictionCandidates();

  get rule(): QuotaRule | undefined {
    return this.candidates.rule;
  }

  set rule(rule: QuotaRule | undefined) {
    this.candidates.rule = rule;
  }

  get limit(): number {
    return this.rule?.limit ?? Infinity;
  }

  get hasRoom(): boolean {
    return this.taken < this.limit;
  }

  /** Whether newcomers have others evicted. */
  get makesRoom(): boolean {
    const policy = this.rule?.onExceeded;
    return policy === 'PauseOldest' || policy === 'PauseLongestIdle';
  }

  /**
   * Number of evictions that bring the group within its limit, including those for `waiting`
   * newcomers where they make room.
   */
  excess(waiting: number): number {
    return this.holding + (this.makesRoom ? waiting : 0) - this.limit;
  }

  /** Whether this limit keeps some of `demand` newcomers waiting and makes no room for them. */
  isFullFor(demand: number): boolean {
    return !this.makesRoom && this.holding + demand > this.limit;
  }

  /**
   * The newcomer that needs one more eviction: those before it get a slot that is free, or that is
   * being freed.
   */
  get preemptor(): Slot | undefined {
    return this.makesRoom ? this.waiting.at(Math.max(0, this.limit - this.holding)) : undefined;
  }

  /** The undecided sandbox that exceeds `maxSandboxes`: the last one to be created. */
  get overCap(): Slot | undefined {
    return this.stored > (this.cap?.limit ?? Infinity) ? this.undecided.last : undefined;
  }

  get victim(): Slot | undefined {
    return this.candidates.size === 0 ? undefined : this.candidates.at(0);
  }

  /** The slot that a bare resume may have evicted. */
  get idleVictim(): Slot | undefined {
    return this.candidates.idleAt(0);
  }

  /** Number of slots that resume automatically, now or later. */
  get toResume(): number {
    return this.resumable.size + this.#delayed.size;
  }

  /** Time when the next delayed slot may resume; Infinity without one. */
  get nextResumeAt(): number {
    return this.#delayed.first?.resumesAt ?? Infinity;
  }

  get isEmpty(): boolean {
    return this.taken === 0 && this.waiting.size === 0 && this.toResume === 0 && this.stored === 0;
  }

  add(slot: Slot): void {
    this.#count(slot, 1);
    if (slot.undecided) this.undecided.add(slot);
    if (slot.state === 'waiting') this.waiting.add(slot);
    if (slot.state === 'resumable') (slot.resumesAt > 0 ? this.#delayed : this.resumable).add(slot);
    if (mayBeEvicted(slot)) this.candidates.add(slot);
  }

  remove(slot: Slot): void {
    this.#count(slot, -1);
    if (slot.undecided) this.undecided.delete(slot);
    if (slot.state === 'waiting') this.waiting.delete(slot);
    if (slot.state === 'resumable' && !this.resumable.delete(slot)) this.#delayed.delete(slot);
    if (mayBeEvicted(slot)) this.candidates.delete(slot);
  }

  /** Applies what time alone changes: protections and delays that are over. */
  advance(now: number): void {
    this.candidates.becomeEvictable(now);
    for (
      let slot = this.#delayed.first;
      slot !== undefined && slot.resumesAt <= now;
      slot = this.#delayed.first
    ) {
      this.#delayed.delete(slot);
      this.resumable.add(slot);
    }
  }

  #count({ state, stored, taken, bare }: Slot, by: 1 | -1): void {
    if (stored) this.stored += by;
    if (taken) this.taken += by;
    if (state === 'starting' || state === 'running') this.holding += by;
    if (state === 'waiting' && !bare) this.demanding += by;
  }
}
