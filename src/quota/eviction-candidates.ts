import type { QuotaRule } from '../resources/quota-rules.ts';
import { OrderedSet } from './ordered-set.ts';
import { byAge, byIdleness, byName } from './slot-order.ts';
import type { Slot } from './slot.ts';

const isIdle = ({ idleSince }: Slot): boolean => idleSince < Infinity;

/**
 * The slots under one limit that may be evicted, now or later, in the order in which its policy
 * evicts them.
 */
export class EvictionCandidates {
  #rule: QuotaRule | undefined;
  /** Slots that may be evicted now. */
  #victims = new OrderedSet(byAge);
  /** Victims whose agent has nothing to do. */
  #idleVictims = new OrderedSet(byAge);
  /** Slots that have not run for `minActiveSeconds`, or that are not stalled yet. */
  #protected = this.#newProtected();

  get rule(): QuotaRule | undefined {
    return this.#rule;
  }

  set rule(rule: QuotaRule | undefined) {
    const isSame =
      rule?.onExceeded === this.#rule?.onExceeded && rule?.minActiveMs === this.#rule?.minActiveMs;
    this.#rule = rule;
    if (isSame) return;
    const slots = [...this.#victims, ...this.#protected];
    const order = rule?.onExceeded === 'PauseLongestIdle' ? byIdleness : byAge;
    this.#victims = new OrderedSet(order);
    this.#idleVictims = new OrderedSet(order);
    this.#protected = this.#newProtected();
    for (const slot of slots) this.add(slot);
  }

  get size(): number {
    return this.#victims.size;
  }

  get idleSize(): number {
    return this.#idleVictims.size;
  }

  /**
   * The slot that is evicted after `index` others, protected slots included: time alone does not
   * change the order.
   */
  at(index: number): Slot | undefined {
    return index < this.size ? this.#victims.at(index) : this.#protected.at(index - this.size);
  }

  /** The slot that a bare resume may have evicted after `index` others. */
  idleAt(index: number): Slot | undefined {
    return this.#idleVictims.at(index);
  }

  /**
   * Time when a slot becomes evictable: by its age, or because its agent has not answered for long
   * enough.
   */
  evictableAt(slot: Slot): number {
    if (slot.spare) return 0;
    return slot.state === 'starting'
      ? slot.stalledAt
      : slot.activeSince + (this.#rule?.minActiveMs ?? 0);
  }

  /** Time when the next protected slot becomes evictable; Infinity without one. */
  get nextEvictableAt(): number {
    const first = this.#protected.first;
    return first === undefined ? Infinity : this.evictableAt(first);
  }

  /** Ends the protection of slots whose time has come. */
  becomeEvictable(now: number): void {
    for (
      let slot = this.#protected.first;
      slot !== undefined && this.evictableAt(slot) <= now;
      slot = this.#protected.first
    ) {
      this.#protected.delete(slot);
      this.#addVictim(slot);
    }
  }

  add(slot: Slot): void {
    const isProtected = slot.state === 'starting' || (this.#rule?.minActiveMs ?? 0) > 0;
    if (isProtected && !slot.spare) this.#protected.add(slot);
    else this.#addVictim(slot);
  }

  delete(slot: Slot): void {
    if (!this.#victims.delete(slot)) this.#protected.delete(slot);
    else if (isIdle(slot)) this.#idleVictims.delete(slot);
  }

  #addVictim(slot: Slot): void {
    this.#victims.add(slot);
    if (isIdle(slot)) this.#idleVictims.add(slot);
  }

  #newProtected(): OrderedSet<Slot> {
    return new OrderedSet<Slot>(
      (one, other) => this.evictableAt(one) - this.evictableAt(other) || byName(one, other),
    );
  }
}
