import type { CachedConversation } from '../resources/cached-conversation.ts';
import type { Sandbox } from '../resources/sandbox.ts';
import type { SandboxTemplate } from '../resources/sandbox-template.ts';

export type TimeLimits = Pick<SandboxTemplate['spec'], 'idleTimeout' | 'maxActiveTime'> &
  Partial<Pick<SandboxTemplate['spec'], 'startDeadline'>>;

export interface SlotFacts {
  readonly sandbox: Sandbox;
  /** The conversations in the sandbox, and those that it was made for. */
  readonly conversations: readonly CachedConversation[];
  /**
   * Whether a conversation that the sandbox was made for is not known yet, and may not have
   * started.
   */
  readonly unknownStart?: boolean;
  /**
   * Whether every conversation that the sandbox was made for is gone or being deleted, so that
   * garbage collection removes the sandbox.
   */
  readonly orphaned?: boolean;
  /**
   * Whether the sandbox was made for no conversation of its owner: then the references to the
   * conversations of other owners save it from no limit.
   */
  readonly hasForeignMakers?: boolean;
  readonly limits?: TimeLimits | undefined;
  readonly now: number;
  /**
   * Translates a stored time to the clock by which ages are compared. By default the wall clock.
   */
  readonly steady?: (ms: number) => number;
}

export const unchanged = (ms: number): number => ms;

/** The milliseconds of a stored time. */
export const time = (timestamp: string | undefined, otherwise: number): number => {
  const ms = timestamp === undefined ? Number.NaN : Date.parse(timestamp);
  return Number.isNaN(ms) ? otherwise : ms;
};
