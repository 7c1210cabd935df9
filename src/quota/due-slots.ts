import { OrderedSet } from './ordered-set.ts';
import type { Slot } from './slot.ts';
import type { Decision } from './decision.ts';

const expiryOf = ({ expiry }: Slot): number => expiry?.at ?? Infinity;
const byExpiry = (one: Slot, other: Slot): number =>
  (expiryOf(one) === expiryOf(other) ? 0 : expiryOf(one) - expiryOf(other)) ||
  (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);

/**
 * Slots that need a decision whatever the limits say. Every change takes at most logarithmic time.
 */
export class DueSlots {
  readonly #expiring = new OrderedSet(byExpiry);
  readonly #releasable = new Map<string, Slot>();
  readonly #unexplained = new Map<string, Slot>();

  /** The slot must not be in the set yet. */
  add(slot: Slot): void {
    if (slot.expiry !== undefined) this.#expiring.add(slot);
    if (slot.releasable) this.#releasable.set(slot.uid, slot);
    if (slot.state === 'waiting' && !slot.explained) this.#unexplained.set(slot.uid, slot);
  }

  delete(slot: Slot): void {
    if (slot.expiry !== undefined) this.#expiring.delete(slot);
    this.#releasable.delete(slot.uid);
    this.#unexplained.delete(slot.uid);
  }

  /** Waiting slots whose condition Admitted does not say so yet. */
  get unexplained(): Iterable<Slot> {
    return this.#unexplained.values();
  }

  /** Time of the next expiry, in milliseconds since 1970; Infinity where nothing expires. */
  get expiryAt(): number {
    const slot = this.#expiring.first;
    return slot === undefined ? Infinity : expiryOf(slot);
  }

  release(): Decision | undefined {
    for (const slot of this.#releasable.values()) return { kind: 'release', slot };
    return undefined;
  }

  expire(now: number): Decision | undefined {
    const slot = this.#expiring.first;
    return slot?.expiry !== undefined && slot.expiry.at <= now
      ? { kind: 'expire', slot, reason: slot.expiry.reason }
      : undefined;
  }
}
