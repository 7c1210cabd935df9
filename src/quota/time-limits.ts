import { findCondition } from '../resources/conditions.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { SandboxCondition, SandboxReason, type Sandbox } from '../resources/sandbox.ts';
import {
  defaultStartDeadline,
  durationMs,
  type SandboxTemplate,
} from '../resources/sandbox-template.ts';
import { idleSince, isUnderWay, time, type Steady } from './idleness.ts';

export type TimeLimits = Pick<SandboxTemplate['spec'], 'idleTimeout' | 'maxActiveTime'> &
  Partial<Pick<SandboxTemplate['spec'], 'startDeadline'>>;

export interface SlotFacts {
  readonly sandbox: Sandbox;
  /** The conversations in the sandbox, and those of its owner references. */
  readonly conversations: readonly CachedConversation[];
  /** Whether a conversation in the owner references is not known yet, and may not have started. */
  readonly unknownStart?: boolean;
  /**
   * Whether every conversation in the owner references is deleted or being deleted, so that garbage
   * collection removes the sandbox.
   */
  readonly orphaned?: boolean;
  /**
   * Whether no owner reference is a conversation of the sandbox's owner: then references to
   * conversations of other owners exempt it from no limit.
   */
  readonly hasForeignReferences?: boolean;
  readonly limits?: TimeLimits | undefined;
  readonly now: number;
  /** Default: the wall clock. */
  readonly steady?: Steady;
}

export interface Expiry {
  readonly at: number;
  readonly reason: typeof SandboxReason.idle | typeof SandboxReason.maxActiveTime;
  /** The time limit in the notation of the template. */
  readonly limit: string;
}

/**
 * Grace of a sandbox that was RUNNING and whose agent can't be used any more, in milliseconds;
 * after that it counts as stalled.
 */
export const stalledGraceMs = 30_000;

interface Ages {
  readonly activeSince: number;
  readonly idleSince: number;
  readonly notIdleBefore?: number;
  readonly notAgedBefore?: number;
}

/**
 * The time limit of the template that ends first:
 *
 * 1. `idleTimeout`, since the agent is idle. An agent that does not answer counts as idle since
 *    then, and is only paused once it is stalled.
 * 2. `maxActiveTime`, since the sandbox became active; for one that never was, not before it is
 *    stalled.
 *
 * The first one is the reason where both end at the same moment. Undefined: none ever ends.
 */
function expiryOf(
  { activeSince, idleSince, notIdleBefore = 0, notAgedBefore = 0 }: Ages,
  limits: TimeLimits | undefined,
): Expiry | undefined {
  const { idleTimeout, maxActiveTime } = limits ?? {};
  const ending = (
    reason: Expiry['reason'],
    since: number,
    limit: string | undefined,
    notBefore: number,
  ): readonly Expiry[] =>
    limit === undefined
      ? []
      : [{ at: Math.max(notBefore, since + durationMs(limit)), reason, limit }];
  const [first] = [
    ...ending(SandboxReason.idle, idleSince, idleTimeout, notIdleBefore),
    ...ending(SandboxReason.maxActiveTime, activeSince, maxActiveTime, notAgedBefore),
  ].sort((one, other) => one.at - other.at);
  return first?.at === Infinity ? undefined : first;
}

/** Since when an admitted sandbox that has run has no usable agent; undefined for others. */
function unreadySince({ status }: Sandbox, steady: Steady, now: number): number | undefined {
  const ready = findCondition(status?.conditions, SandboxCondition.ready);
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  if (
    status?.lastContainerID === undefined ||
    admitted?.status !== 'True' ||
    ready?.status === 'True'
  )
    return undefined;
  // A resumed sandbox was not ready all the time that it was paused.
  return Math.max(
    steady('admitted', time(admitted.lastTransitionTime, now)),
    steady('ready', time(ready?.lastTransitionTime, 0)),
  );
}

/** Ages of an admitted sandbox, and their consequences. Times are milliseconds. */
export interface Timing {
  /** Time since when a running sandbox runs. */
  readonly activeSince: number;
  /** Since when the agent is idle; Infinity while it works, or waits for a confirmation. */
  readonly idleSince: number;
  /**
   * Time from which a starting sandbox counts as stalled; Infinity before its first run, and during
   * the start of a conversation in it.
   */
  readonly stalledAt: number;
  /** The due pause by the template, of a sandbox that runs or whose agent does not answer. */
  readonly expiry: Expiry | undefined;
}

const timeless: Timing = {
  activeSince: 0,
  idleSince: Infinity,
  stalledAt: Infinity,
  expiry: undefined,
};

/** A warm sandbox is always idle, and no time limit counts before its first start. */
export const timelessWarmSandbox: Timing = { ...timeless, idleSince: 0 };

/** The ages of an admitted sandbox, and what follows from them. */
export function timingOf(facts: SlotFacts, state: 'running' | 'starting' | undefined): Timing {
  const {
    sandbox,
    conversations,
    unknownStart = false,
    limits,
    now,
    steady = (_name: string, ms: number): number => ms,
  } = facts;
  const { status } = sandbox;
  if (state === 'running') {
    const activeSince = steady('active', time(status?.activeSinceTime, now));
    const ages = { activeSince, idleSince: idleSince(facts, activeSince, steady) };
    return { ...ages, stalledAt: Infinity, expiry: expiryOf(ages, limits) };
  }
  const since = state === 'starting' ? unreadySince(sandbox, steady, now) : undefined;
  if (since === undefined) return timeless;
  const startsInIt = unknownStart || conversations.some(isUnderWay);
  const wasActive = status?.activeSinceTime !== undefined;
  const activeSince = wasActive ? steady('active', time(status.activeSinceTime, now)) : since;
  const startDeadlineMs = durationMs(limits?.startDeadline ?? defaultStartDeadline);
  // A sandbox that starts or comes back has the time of a start: on nodes slower than the grace,
  // none would ever become ready.
  const stalledAt = since + (wasActive && !startsInIt ? stalledGraceMs : startDeadlineMs);
  // Without this limit, and without an idleTimeout, a resumed sandbox whose agent never answers
  // would keep its slot for ever.
  const ages = {
    activeSince,
    idleSince: since,
    notIdleBefore: stalledAt,
    notAgedBefore: wasActive ? 0 : stalledAt,
  };
  return {
    activeSince,
    idleSince: startsInIt ? Infinity : idleSince(facts, activeSince, steady),
    stalledAt,
    expiry: startsInIt ? undefined : expiryOf(ages, limits),
  };
}
