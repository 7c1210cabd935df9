import type { Sandbox } from '../resources/sandbox.ts';
import type { Timing } from './time-limits.ts';

export type SlotState =
  /** The sandbox needs no slot: its owner has paused it, it has failed, or it is being deleted. */
  | 'none'
  /** The sandbox waits for a slot, because a person requested it. */
  | 'waiting'
  /**
   * The sandbox is admitted, and its agent or the start of a conversation is not ready yet. The
   * sandbox is not evicted before `stalledAt`.
   */
  | 'starting'
  | 'running'
  /** The sandbox is being paused or deleted. The slot is free when the pod is gone. */
  | 'freeing'
  /**
   * The sandbox resumes automatically if there is room: a quota has paused it, or it was paused as
   * idle and has work.
   */
  | 'resumable'
  /**
   * Only a person resumes the sandbox: it was rejected, or paused for its idleness or age. A warm
   * sandbox without a slot also has this state.
   */
  | 'suspended';

/** The data of a sandbox on which decisions of quotas depend. Times are milliseconds since 1970. */
export interface Slot extends Timing {
  readonly uid: string;
  readonly name: string;
  /** Empty for a warm sandbox. */
  readonly owner: string;
  readonly state: SlotState;
  /**
   * Whether this is a warm sandbox, which counts only against the limits of the namespace, is
   * evicted before every other sandbox, and is admitted when nothing else waits.
   */
  readonly warmSandbox: boolean;
  readonly taken: boolean;
  readonly sandbox: Sandbox;
  /** Time of the request, for the state `waiting`. */
  readonly requestedAt: number;
  /** Whether a waiting sandbox has no work (start, message or run), and so evicts only idle ones. */
  readonly bare: boolean;
  /** Whether the condition Admitted explains why the sandbox waits. */
  readonly explained: boolean;
  /** Whether the agent waits for a confirmation by a person. */
  readonly confirming: boolean;
  /** Whether the sandbox was resumed automatically, and no person has used it since. */
  readonly automatic: boolean;
  /** Time of the pause, for the state `resumable`. */
  readonly pausedSince: number;
  /** Whether work is left: the pause interrupted a run or a start, or a message waits. */
  readonly unfinished: boolean;
  /** Earliest time of the automatic resume, for the state `resumable`; 0: at once. */
  readonly resumesAt: number;
  /** Whether the sandbox is admitted, but needs no slot: it has no pod, and is paused or failed. */
  readonly releasable: boolean;
  /**
   * Whether the sandbox counts against `maxSandboxes`. Sandboxes in deletion do not count, nor do
   * sandboxes that failed because of `maxSandboxes`.
   */
  readonly stored: boolean;
  /**
   * Whether the sandbox waits for its first decision and has to be checked against `maxSandboxes`.
   * The check is not necessary if it was made for the conversation of the sandbox.
   */
  readonly undecided: boolean;
}

/** Compares two slots; negative if the first one comes first. */
export type SlotOrder = (one: Slot, other: Slot) => number;

const byUid: SlotOrder = (one, other) => (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
export const byName: SlotOrder = (one, other) =>
  one.name === other.name ? byUid(one, other) : one.name < other.name ? -1 : 1;

/**
 * The order of admission:
 *
 * 1. Sandboxes with work before those without (`bare`).
 * 2. First come, first served, by the time of the request.
 * 3. By name, because the REST service names sandboxes in the order of their creation.
 */
export const byRequest: SlotOrder = (one, other) =>
  Number(one.bare) - Number(other.bare) ||
  one.requestedAt - other.requestedAt ||
  byName(one, other);

/** Creation times are whole seconds in one format, so they are compared as strings. */
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
