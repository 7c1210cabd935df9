import { findCondition } from '../resources/conditions.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { SandboxCondition, SandboxReason, type Sandbox } from '../resources/sandbox.ts';
import { durationMs } from '../resources/sandbox-template.ts';
import { isUnasked, isUnderWay, isWorking } from './agent-work.ts';
import { time, unchanged, type SlotFacts, type TimeLimits } from './slot-facts.ts';

export interface Expiry {
  readonly at: number;
  readonly reason: typeof SandboxReason.idle | typeof SandboxReason.maxActiveTime;
  /** The template's time limit, as it stands there. */
  readonly limit: string;
}

/** Grace of a sandbox that was RUNNING and whose agent can't be used any more, in milliseconds; after that it counts as stalled. */
export const stalledGraceMs = 30_000;
/** Default grace of one that comes back from a pause: `startDeadline` of a template that states none. */
const defaultStartDeadlineMs = 5 * 60_000;

interface Ages {
  readonly activeSince: number;
  readonly idleSince: number;
  readonly notIdleBefore?: number;
  readonly notAgedBefore?: number;
}

function expiryOf(
  { activeSince, idleSince, notIdleBefore = 0, notAgedBefore = 0 }: Ages,
  limits: TimeLimits | undefined,
): Expiry | undefined {
  const { idleTimeout, maxActiveTime } = limits ?? {};
  const ending = (reason: Expiry['reason'], since: number, limit: string | undefined, notBefore: number): readonly Expiry[] =>
    limit === undefined ? [] : [{ at: Math.max(notBefore, since + durationMs(limit)), reason, limit }];
  const [first] = [
    ...ending(SandboxReason.idle, idleSince, idleTimeout, notIdleBefore),
    ...ending(SandboxReason.maxActiveTime, activeSince, maxActiveTime, notAgedBefore),
  ].sort((one, other) => one.at - other.at);
  return first?.at === Infinity ? undefined : first;
}

/** Of a sandbox that has run, is admitted, and whose agent can't be used: since when that is so. Undefined: it is none of those. */
function unreadySince({ status }: Sandbox, steady: (ms: number) => number, now: number): number | undefined {
  const ready = findCondition(status?.conditions, SandboxCondition.ready);
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  if (status?.lastContainerID === undefined || admitted?.status !== 'True' || ready?.status === 'True') return undefined;
  // A resumed sandbox was not ready all the time that it was paused.
  return Math.max(steady(time(admitted.lastTransitionTime, now)), steady(time(ready?.lastTransitionTime, 0)));
}

/** When the agent of a sandbox did something last, as far as it is known. */
const lastActivity = (conversations: readonly CachedConversation[]): readonly number[] =>
  conversations.flatMap(({ status: { start, lastActivityTime } = {} }) => [
    time(lastActivityTime, 0),
    time(start?.transitions.at(-1)?.time, 0),
  ]);

/** Ages of an admitted sandbox, and what follows from them. Times are milliseconds. */
export interface Timing {
  /** Running: since when. */
  readonly activeSince: number;
  /** Running, or stalled: since when its agent has done nothing; Infinity while it works, or waits for a confirmation. */
  readonly idleSince: number;
  /** Starting: from when on it counts as stalled and may be paused. Infinity before its first run, and while a start goes on in it. */
  readonly stalledAt: number;
  /** Running, or admitted and without an agent that answers: when its template says that it is paused, and why. */
  readonly expiry: Expiry | undefined;
}

const timeless: Timing = { activeSince: 0, idleSince: Infinity, stalledAt: Infinity, expiry: undefined };

/** Of an admitted sandbox: since when it runs or does nothing, and what follows from that. */
export function timingOf(facts: SlotFacts, state: 'running' | 'starting' | undefined): Timing {
  const { sandbox, conversations, unknownStart = false, limits, now, steady = unchanged } = facts;
  const { status } = sandbox;
  const isHeld = conversations.some(
    (conversation) =>
      isWorking(conversation) || isUnasked(conversation, sandbox) || conversation.status?.executionStatus === 'waiting_for_confirmation',
  );
  const idleFrom = (activeSince: number): number => (isHeld ? Infinity : Math.max(activeSince, ...lastActivity(conversations).map(steady)));
  if (state === 'running') {
    const activeSince = steady(time(status?.activeSinceTime, now));
    // A person's answer is waited for, for as long as the sandbox may run.
    const idleSince = idleFrom(activeSince);
    return { activeSince, idleSince, stalledAt: Infinity, expiry: expiryOf({ activeSince, idleSince }, limits) };
  }
  const since = state === 'starting' ? unreadySince(sandbox, steady, now) : undefined;
  if (since === undefined) return timeless;
  const startsInIt = unknownStart || conversations.some(isUnderWay);
  const wasActive = status?.activeSinceTime !== undefined;
  const activeSince = wasActive ? steady(time(status.activeSinceTime, now)) : since;
  const startDeadlineMs = limits?.startDeadline === undefined ? defaultStartDeadlineMs : durationMs(limits.startDeadline);
  // What comes back, or starts, has the time of a start: nothing would ever come up on nodes that take longer than the grace.
  const stalledAt = since + (wasActive && !startsInIt ? stalledGraceMs : startDeadlineMs);
  // Without this limit, and without an idleTimeout, a resumed sandbox whose agent never answers would keep its slot for ever.
  const ages = { activeSince, idleSince: since, notIdleBefore: stalledAt, notAgedBefore: wasActive ? 0 : stalledAt };
  return {
    activeSince,
    idleSince: startsInIt ? Infinity : idleFrom(activeSince),
    stalledAt,
    expiry: startsInIt ? undefined : expiryOf(ages, limits),
  };
}
