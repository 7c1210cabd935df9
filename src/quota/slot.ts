import type { Sandbox } from '../resources/sandbox.ts';
import type { Timing } from './time-limits.ts';

export type SlotState =
  /** The sandbox wants no slot: its owner has paused it, it has failed, or it is being deleted. */
  | 'none'
  /** A newcomer: the sandbox waits for a slot, because a person requested it. */
  | 'waiting'
  /**
   * Admitted; the agent, or the start of a conversation, is not ready yet. The sandbox is not
   * evicted before `stalledAt`.
   */
  | 'starting'
  | 'running'
  /** The sandbox is being paused or deleted; the slot is free when the pod is gone. */
  | 'freeing'
  /** Paused by the quota, or idle with work: resumed automatically when there is room. */
  | 'resumable'
  /**
   * Paused by its idleness or its age, or rejected: only a person resumes the sandbox. Also a warm
   * sandbox without a slot.
   */
  | 'suspended';

/** A sandbox as the scheduling of quotas sees it. Times are milliseconds since 1970. */
export interface Slot extends Timing {
  readonly uid: string;
  readonly name: string;
  /** Empty for a warm sandbox. */
  readonly owner: string;
  readonly state: SlotState;
  /**
   * A warm sandbox, which only the limits of the namespace count: evicted before every other
   * sandbox, and admitted when nothing else waits.
   */
  readonly warmSandbox: boolean;
  readonly taken: boolean;
  readonly sandbox: Sandbox;
  /** Waiting: time of the request. */
  readonly requestedAt: number;
  /** Waiting: a resume without a start, a message or a run. No working agent is evicted for it. */
  readonly bare: boolean;
  /** Waiting: the condition Admitted explains it. */
  readonly explained: boolean;
  /** Running: the agent waits for a confirmation by a person. */
  readonly confirming: boolean;
  /** Starting or running: resumed automatically, and not requested by a person since. */
  readonly automatic: boolean;
  /** Resumable: time of the pause. */
  readonly pausedSince: number;
  /** Resumable: the pause interrupted a run or a start. */
  readonly unfinished: boolean;
  /** Resumable: earliest time of the automatic resume; 0: at once. */
  readonly resumesAt: number;
  /** Admitted, and without need of the slot. */
  readonly releasable: boolean;
  /**
   * Whether the sandbox counts against `maxSandboxes`: all except those being deleted, and those
   * that failed for that very limit.
   */
  readonly stored: boolean;
  /**
   * Waiting for the first decision, and created for no conversation: the start of a conversation
   * checks `maxSandboxes` before.
   */
  readonly undecided: boolean;
}

/** A comparison of two slots: negative where the first one comes first. */
export type SlotOrder = (one: Slot, other: Slot) => number;

const byUid: SlotOrder = (one, other) => (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
export const byName: SlotOrder = (one, other) =>
  one.name === other.name ? byUid(one, other) : one.name < other.name ? -1 : 1;

/**
 * The order of admission:
 *
 * 1. Newcomers with work, and after them bare resumes.
 * 2. First come, first served, by the time of the request.
 * 3. By name, because the REST service names sandboxes in the order of their creation.
 */
export const byRequest: SlotOrder = (one, other) =>
  Number(one.bare) - Number(other.bare) ||
  one.requestedAt - other.requestedAt ||
  byName(one, other);

/** Creation times are whole seconds in one format, so that they compare as strings. */
export const byCreation: SlotOrder = (one, other) => {
  const before = one.sandbox.metadata.creationTimestamp;
  const after = other.sandbox.metadata.creationTimestamp;
  return before === after ? byName(one, other) : before < after ? -1 : 1;
};

export const firstOf = (slots: readonly Slot[], order: SlotOrder): Slot | undefined =>
  slots.reduce<Slot | undefined>(
    (first, slot) => (first === undefined || order(slot, first) < 0 ? slot : first),
    undefined,
  );
