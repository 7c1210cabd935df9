import type { Sandbox } from '../resources/sandbox.ts';
import type { Timing } from './timing.ts';

export type SlotState =
  /** The sandbox wants no slot: its owner has paused it, it has failed, or it is being deleted. */
  | 'none'
  /** A newcomer: the sandbox waits for a slot, because a person asked for it. */
  | 'waiting'
  /**
   * Admitted; the agent, or the start of a conversation, is not ready yet. The sandbox is not
   * evicted before `stalledAt`.
   */
  | 'starting'
  | 'running'
  /** The sandbox is being paused or deleted; the slot is free when the pod is gone. */
  | 'freeing'
  /**
   * Paused by the quota, or by idleness although the agent had work: an automatic resume follows
   * when there is room.
   */
  | 'resumable'
  /**
   * Paused by its idleness or its age, or rejected: only a person resumes the sandbox. Also a spare
   * without a slot.
   */
  | 'suspended';

/** A sandbox as the scheduling of quotas sees it. Times are milliseconds since 1970. */
export interface Slot extends Timing {
  readonly uid: string;
  readonly name: string;
  /** Empty for a spare of a pool. */
  readonly owner: string;
  readonly state: SlotState;
  /**
   * A spare of a pool, which only the limits of the namespace count: evicted before every other
   * sandbox, and admitted when nothing else waits.
   */
  readonly spare: boolean;
  /** Whether the slot counts against the limit. */
  readonly taken: boolean;
  readonly sandbox: Sandbox;
  /** Waiting: time of the request. */
  readonly requestedAt: number;
  /**
   * Waiting: a resume without a start, a message or a run. No agent that works is evicted for it.
   */
  readonly bare: boolean;
  /** Waiting: the condition Admitted says so. */
  readonly explained: boolean;
  /** Running: the agent waits for a confirmation by a person. */
  readonly confirming: boolean;
  /**
   * Starting or running: an automatic resume, after which no person has asked for anything in the
   * sandbox.
   */
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
   * Whether the sandbox counts against `maxSandboxes`: all but those being deleted, and those that
   * failed for that very limit.
   */
  readonly stored: boolean;
  /**
   * Waiting for the first decision, and created for no conversation: the start of a conversation
   * checks `maxSandboxes` before.
   */
  readonly undecided: boolean;
}
