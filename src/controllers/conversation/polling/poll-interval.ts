import type { ConversationStatus, ExecutionStatus } from '../../../resources/conversation.ts';

/** Pure decisions about when an agent is asked what it does. Milliseconds of a monotonic clock, unless said otherwise. */

const longestMs = 64_000;

/**
 * How long between two looks at the least and at the most. A run is looked at often enough that a change is known within 5 s
 * although no webhook comes; what stands is told by webhooks, and found by itself sooner or later, as is a run whose agent is heard.
 */
const intervals: Readonly<Record<ExecutionStatus, { readonly leastMs: number; readonly mostMs: number }>> = {
  running: { leastMs: 500, mostMs: 4_000 },
  waiting_for_confirmation: { leastMs: 1_000, mostMs: 16_000 },
  idle: { leastMs: 16_000, mostMs: longestMs },
  paused: { leastMs: 16_000, mostMs: longestMs },
  finished: { leastMs: 16_000, mostMs: longestMs },
  error: { leastMs: 16_000, mostMs: longestMs },
  stuck: { leastMs: 16_000, mostMs: longestMs },
};
/** Where agents have been heard, a look only finds what a lost webhook would have told. */
const mostForHeardMs = 16_000;
/** The interval grows with the time for which nothing has changed: to a quarter of it. */
const shareOfQuiet = 4;
const attentiveIntervalMs = 500;
/** For so long after an agent was told something, what it has stored lags behind, and the title may be on its way. */
export const freshMs = 3_000;
/** Between two looks at the same conversation, whatever hints say. */
export const leastGapMs = 200;

export interface Quiet {
  readonly executionStatus: ExecutionStatus | undefined;
  /** For how long nothing has changed. */
  readonly quietMs: number;
  /** Something has just been said to the agent, or by it. */
  readonly attentive: boolean;
  /** The agent's webhooks have come so far. */
  readonly heard: boolean;
  /** No longer than this, whatever the status: an agent's idle time has to be known better than its limit. */
  readonly mostMs?: number | undefined;
}

/** Until the next look: a power of two times the least, so that the looks at all conversations of a sandbox fall together. */
export function intervalMs({ executionStatus = 'error', quietMs, attentive, heard, mostMs = Infinity }: Quiet): number {
  const range = intervals[executionStatus];
  const rangeMostMs = heard ? Math.max(range.mostMs, mostForHeardMs) : range.mostMs;
  let interval = range.leastMs;
  while (interval * 2 <= Math.min(rangeMostMs, quietMs / shareOfQuiet)) interval *= 2;
  while (interval > mostMs && interval > attentiveIntervalMs) interval /= 2;
  return attentive ? Math.min(interval, attentiveIntervalMs) : interval;
}

/**
 * The next of the times that are a whole number of intervals from the sandbox's own beginning, which spreads sandboxes over time.
 * Later than now, by one interval at most.
 */
export const nextOnGrid = (now: number, interval: number, phase: number): number =>
  phase + (Math.floor((now - phase) / interval) + 1) * interval;

/** Sandboxes are due in slots of so long. To be woken for each by itself is a third of what the looks at 200 of them cost. */
export const slotMs = 100;

/** The beginning of a slot, below the longest interval; the same for the same text. */
export function phaseOf(text: string): number {
  let hash = 0;
  for (let index = 0; index < text.length; index++) hash = (hash * 31 + text.charCodeAt(index)) >>> 0;
  return (hash % (longestMs / slotMs)) * slotMs;
}

/** Whether the agent was told something a moment ago. `nowMs`: since 1970, as the times in the status. */
export function isFresh({ start, messages, interruption }: ConversationStatus, nowMs: number): boolean {
  const ready = start?.status === 'READY' ? start.transitions.at(-1)?.time : undefined;
  return [ready, messages?.lastDeliveredTime, interruption?.lastResumeTime].some((time) => {
    const ageMs = time === undefined ? Infinity : nowMs - Date.parse(time);
    return ageMs >= 0 && ageMs < freshMs;
  });
}

/** What a template's idle timeout makes of the intervals. */
export const mostForIdleTimeout = (idleTimeoutMs: number | undefined): number | undefined =>
  idleTimeoutMs === undefined ? undefined : idleTimeoutMs / 4;

/** How many looks hints may bring forward: so many at once, and one in each `perHintMs` after that. */
export const hintBurst = 6;
export const perHintMs = 2_000;
/** After a hint the stored state may lag behind: it is looked at again, unless hints come all the time. */
export const hintAttentionMs = 2_000;

export interface HintBudget {
  readonly tokens: number;
  readonly at: number;
}

export const fullBudget = (now: number): HintBudget => ({ tokens: hintBurst, at: now });

/** What one more hint costs, when it may be acted on, and whether what follows is looked at closely. */
export function spend(
  budget: HintBudget,
  now: number,
): { readonly budget: HintBudget; readonly dueAt: number; readonly attentive: boolean } {
  const tokens = Math.min(hintBurst, budget.tokens + (now - budget.at) / perHintMs) - 1;
  const dueAt = tokens >= 0 ? now : now - tokens * perHintMs;
  return { budget: { tokens, at: now }, dueAt, attentive: tokens >= 1 };
}
