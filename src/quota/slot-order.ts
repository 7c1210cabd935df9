import type { Slot } from './slot.ts';

/** A comparison of two slots: negative where the first one comes first. */
export type SlotOrder = (one: Slot, other: Slot) => number;

const byUid: SlotOrder = (one, other) => (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
export const byName: SlotOrder = (one, other) =>
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
export const byResumeTime: SlotOrder = (one, other) =>
  one.resumesAt - other.resumesAt || byName(one, other);

/** Creation times are whole seconds in one format, so that they compare as strings. */
export const byCreation: SlotOrder = (one, other) => {
  const [before, after] = [
    one.sandbox.metadata.creationTimestamp,
    other.sandbox.metadata.creationTimestamp,
  ];
  return before === after ? byName(one, other) : before < after ? -1 : 1;
};

/**
 * Spares are evicted first, then stalled sandboxes, then automatic resumes, then the others; an
 * agent that waits for a confirmation is the last.
 */
const evictionRank = ({ state, spare, automatic, confirming }: Slot): number => {
  if (spare) return -1;
  if (state === 'starting') return 0;
  if (confirming) return 3;
  return automatic ? 1 : 2;
};
const byStart: SlotOrder = (one, other) =>
  one.activeSince - other.activeSince || byName(one, other);
const byIdleTime: SlotOrder = (one, other) =>
  one.idleSince === other.idleSince ? 0 : one.idleSince - other.idleSince;
/** The order of evictions by the policy PauseOldest. */
export const byAge: SlotOrder = (one, other) =>
  evictionRank(one) - evictionRank(other) || byStart(one, other);
/** The order of evictions by the policy PauseLongestIdle. */
export const byIdleness: SlotOrder = (one, other) =>
  evictionRank(one) - evictionRank(other) || byIdleTime(one, other) || byStart(one, other);
