import type { QuotaRule } from './rules.ts';
import type { Slot } from './slot.ts';

/** A comparison of two slots: negative where the first one comes first. */
export type SlotOrder = (one: Slot, other: Slot) => number;

const byUid: SlotOrder = (one, other) => (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
const byName: SlotOrder = (one, other) =>
  one.name === other.name ? byUid(one, other) : one.name < other.name ? -1 : 1;

/**
 * The order of admission: first come, first served, and bare resumes after everything that has work
 * to do. Requests of the same moment are ordered by name, because the names of sandboxes that the
 * REST service creates are in the order of their creation.
 */
export const byRequest: SlotOrder = (one, other) =>
  Number(one.bare) - Number(other.bare) ||
  one.requestedAt - other.requestedAt ||
  byName(one, other);

/** The order of automatic resumes: unfinished work first, then the longest pause. */
export const byResume: SlotOrder = (one, other) =>
  Number(other.unfinished) - Number(one.unfinished) ||
  one.pausedSince - other.pausedSince ||
  byName(one, other);

/** Creation times are whole seconds in one format, so that they compare as strings. */
export const byCreation: SlotOrder = (one, other) => {
  const before = one.sandbox.metadata.creationTimestamp;
  const after = other.sandbox.metadata.creationTimestamp;
  return before === after ? byName(one, other) : before < after ? -1 : 1;
};

/**
 * Time from which a slot may be evicted under a rule, in milliseconds since 1970: by its age, or
 * because its agent has not answered for long enough. Infinity: never.
 */
export function evictableAt(slot: Slot, rule: QuotaRule | undefined): number {
  if (slot.state === 'starting') return slot.stalledAt;
  return slot.state === 'running' ? slot.activeSince + (rule?.minActiveMs ?? 0) : Infinity;
}

/**
 * Stalled sandboxes are evicted first, then automatic resumes, then the others; an agent that waits
 * for a confirmation is the last.
 */
const evictionRank = ({ state, automatic, confirming }: Slot): number => {
  if (state === 'starting') return 0;
  if (confirming) return 3;
  return automatic ? 1 : 2;
};
const byStart: SlotOrder = (one, other) =>
  one.activeSince - other.activeSince || byName(one, other);
const byIdleTime: SlotOrder = (one, other) =>
  one.idleSince === other.idleSince ? 0 : one.idleSince - other.idleSince;

/** The order of evictions among the slots that may be evicted now: by rank, and then by policy. */
export function byRank(rule: QuotaRule | undefined): SlotOrder {
  const isIdlenessFirst = rule?.onExceeded === 'PauseLongestIdle';
  return (one, other) =>
    evictionRank(one) - evictionRank(other) ||
    (isIdlenessFirst ? byIdleTime(one, other) : 0) ||
    byStart(one, other);
}

/**
 * The order of evictions under a rule: first the slots that may be evicted now, and then the others
 * in the order in which their protection ends.
 */
export function byEviction(rule: QuotaRule | undefined, now: number): SlotOrder {
  const amongRipe = byRank(rule);
  return (one, other) => {
    const [ofOne, ofOther] = [evictableAt(one, rule), evictableAt(other, rule)];
    if (ofOne <= now && ofOther <= now) return amongRipe(one, other);
    return Math.max(now, ofOne) - Math.max(now, ofOther) || byName(one, other);
  };
}

/** The slot that comes first; undefined where there is none. */
export const firstOf = (slots: readonly Slot[], order: SlotOrder): Slot | undefined =>
  slots.reduce<Slot | undefined>(
    (first, slot) => (first === undefined || order(slot, first) < 0 ? slot : first),
    undefined,
  );
