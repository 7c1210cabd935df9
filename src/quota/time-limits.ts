import { isBudgetQuestion, pendingApproval } from '../resources/approval.ts';
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
  /** The conversations whose status names the sandbox, and those of its owner references. */
  readonly conversations: readonly CachedConversation[];
  /** Whether an owner reference names a conversation that caches lack and that may yet start. */
  readonly unknownStart?: boolean;
  /**
   * Whether every conversation in the owner references is deleted or in deletion, so that garbage
   * collection removes the sandbox.
   */
  readonly orphaned?: boolean;
  /**
   * Whether no owner reference names a conversation of the sandbox's owner. The sandbox is then
   * checked against `maxSandboxes` like a sandbox without owner references.
   */
  readonly hasForeignReferences?: boolean;
  readonly limits?: TimeLimits | undefined;
  readonly now: number;
  /** Translates times to a clock that never jumps; by default, times do not change. */
  readonly steady?: Steady;
}

export interface Expiry {
  readonly at: number;
  readonly reason: (typeof SandboxReason)['idle' | 'maxActiveTime' | 'budgetExhausted'];
  /** The limit as the template spells it, such as `30m`; empty for a budget. */
  readonly limit: string;
}

/** Milliseconds without a usable agent after which a sandbox that was RUNNING is stalled. */
export const stalledGraceMs = 30_000;

interface Ages {
  readonly activeSince: number;
  readonly idleSince: number;
  readonly notIdleBefore?: number;
  readonly notAgedBefore?: number;
}

/**
 * The time limit of the template that ends first; undefined if none ever ends:
 *
 * 1. `idleTimeout`, from the time at which the agent became idle. An agent that does not answer
 *    counts as idle, but is not paused before the sandbox counts as stalled.
 * 2. `maxActiveTime`, from the time at which the sandbox became active. A sandbox that never became
 *    active is not paused before it counts as stalled.
 *
 * If both limits end at the same time, `idleTimeout` is the reason.
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

/**
 * The pause of a sandbox whose run a budget holds up; undefined if none does, or if an agent in the
 * sandbox still works. A sandbox that a person resumed after the question stays: no model answers
 * its agent, and the person may want to see its files.
 */
function budgetExpiryOf(
  { sandbox, conversations }: SlotFacts,
  { idleSince: idle }: Ages,
  steady: Steady,
): Expiry | undefined {
  if (idle === Infinity) return undefined;
  const activeSince = time(sandbox.status?.activeSinceTime, 0);
  for (const conversation of conversations) {
    const asked = pendingApproval(conversation);
    if (asked === undefined || !isBudgetQuestion(asked)) continue;
    const askedAt = time(asked.requestedTime, 0);
    if (askedAt < activeSince) continue;
    const at = steady(`budget of ${conversation.metadata.uid}`, askedAt);
    return { at, reason: SandboxReason.budgetExhausted, limit: '' };
  }
  return undefined;
}

/** Time from which an admitted sandbox that has run lacks a usable agent; otherwise undefined. */
function unreadySince({ status }: Sandbox, steady: Steady, now: number): number | undefined {
  const ready = findCondition(status?.conditions, SandboxCondition.ready);
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  if (
    status?.lastContainerID === undefined ||
    admitted?.status !== 'True' ||
    ready?.status === 'True'
  )
    return undefined;
  // The condition Ready was also False during the pause, so the time counts from the admission.
  return Math.max(
    steady('admitted', time(admitted.lastTransitionTime, now)),
    steady('ready', time(ready?.lastTransitionTime, 0)),
  );
}

/** Times of an admitted sandbox that decide on evictions and pauses, in milliseconds since 1970. */
export interface Timing {
  /** Time from which the sandbox counts as active. */
  readonly activeSince: number;
  /** Time from which the agent is idle; Infinity while it works or waits for a confirmation. */
  readonly idleSince: number;
  /** Time from which a starting sandbox counts as stalled; Infinity before its first run. */
  readonly stalledAt: number;
  /** The pause that a time limit of the template causes; undefined if no limit ends. */
  readonly expiry: Expiry | undefined;
}

const timeless: Timing = {
  activeSince: 0,
  idleSince: Infinity,
  stalledAt: Infinity,
  expiry: undefined,
};

/** A warm sandbox is always idle, and no time limit applies before a start claims it. */
export const timelessWarmSandbox: Timing = { ...timeless, idleSince: 0 };

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
    const expiry = budgetExpiryOf(facts, ages, steady) ?? expiryOf(ages, limits);
    return { ...ages, stalledAt: Infinity, expiry };
  }
  const since = state === 'starting' ? unreadySince(sandbox, steady, now) : undefined;
  if (since === undefined) return timeless;
  const startsInIt = unknownStart || conversations.some(isUnderWay);
  const wasActive = status?.activeSinceTime !== undefined;
  const activeSince = wasActive ? steady('active', time(status.activeSinceTime, now)) : since;
  const startDeadlineMs = durationMs(limits?.startDeadline ?? defaultStartDeadline);
  // A sandbox that starts or was resumed gets the time of a start: on slow nodes it may need more
  // than `stalledGraceMs` until it is ready.
  const stalledAt = since + (wasActive && !startsInIt ? stalledGraceMs : startDeadlineMs);
  // `maxActiveTime` also applies without a usable agent. Otherwise a resumed sandbox whose agent
  // never answers would keep its slot for ever, if its template has no `idleTimeout`.
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
