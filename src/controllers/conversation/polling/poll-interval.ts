import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../resources/conversation-status.ts';
import { isWithin } from '../../elapsed-times.ts';

/**
 * Pure decisions about the time between two polls of an agent. Times are milliseconds of a
 * monotonic clock, unless said otherwise.
 */

const maxIntervalMs = 64_000;

/**
 * Minimum and maximum time between two polls. Without webhooks a change of a running run is known
 * within 5 s. A run that is not running changes by a webhook at once, or by a poll later.
 */
const intervals: Readonly<
  Record<ExecutionStatus, { readonly minMs: number; readonly maxMs: number }>
> = {
  running: { minMs: 500, maxMs: 4_000 },
  waiting_for_confirmation: { minMs: 1_000, maxMs: 16_000 },
  idle: { minMs: 16_000, maxMs: maxIntervalMs },
  paused: { minMs: 16_000, maxMs: maxIntervalMs },
  finished: { minMs: 16_000, maxMs: maxIntervalMs },
  error: { minMs: 16_000, maxMs: maxIntervalMs },
  stuck: { minMs: 16_000, maxMs: maxIntervalMs },
};
/**
 * Maximum time between two polls of an agent whose webhooks arrive: a poll only replaces a lost
 * webhook.
 */
const maxNotifyingMs = 16_000;
/** The interval grows with the time without a change, up to this part of that time. */
const quietDivisor = 4;
/** Maximum time between two polls while a change is expected. */
const attentiveMs = 500;
/** Time after a message or a resume during which the stored state of the agent lags behind. */
export const staleStateMs = 3_000;
/** Minimum time between two polls of a conversation, whatever notifications arrive. */
export const minGapMs = 200;

export interface IntervalInput {
  readonly executionStatus: ExecutionStatus | undefined;
  /** Time without a change. */
  readonly quietMs: number;
  /** Whether a change is expected, because the agent has just received or sent something. */
  readonly attentive: boolean;
  /** Whether the webhooks of the agent have arrived so far. */
  readonly notifies: boolean;
  /**
   * Maximum interval, whatever the status is: the idle time of an agent has to be known more
   * exactly than its limit.
   */
  readonly maxMs?: number | undefined;
}

/**
 * Returns a power of two times the minimum, so that the polls of all conversations of a sandbox
 * coincide.
 */
export function intervalMs({
  executionStatus = 'error',
  quietMs,
  attentive,
  notifies,
  maxMs = Infinity,
}: IntervalInput): number {
  const range = intervals[executionStatus];
  const rangeMaxMs = notifies ? Math.max(range.maxMs, maxNotifyingMs) : range.maxMs;
  let interval = range.minMs;
  while (interval * 2 <= Math.min(rangeMaxMs, quietMs / quietDivisor)) interval *= 2;
  while (interval > maxMs && interval > attentiveMs) interval /= 2;
  return attentive ? Math.min(interval, attentiveMs) : interval;
}

/**
 * Returns the next time, after now, that is a whole number of intervals after the phase. Phases
 * spread the sandboxes over time.
 */
export const nextOnGrid = (now: number, interval: number, phase: number): number =>
  phase + (Math.floor((now - phase) / interval) + 1) * interval;

/**
 * Length of the slots in which sandboxes are due. A timer for each of 200 sandboxes would cost a
 * third of what their polls cost.
 */
export const slotMs = 100;

/** Returns the begin of a slot below the maximum interval; the same text has the same slot. */
export function phaseOf(text: string): number {
  let hash = 0;
  for (let index = 0; index < text.length; index++)
    hash = (hash * 31 + text.charCodeAt(index)) >>> 0;
  return (hash % (maxIntervalMs / slotMs)) * slotMs;
}

/**
 * Whether the agent received a message or a resume a moment ago. `nowMs` is since 1970, as the
 * times of the status are.
 */
export function isStateStale(
  { start, messages, interruption }: ConversationStatus,
  nowMs: number,
): boolean {
  const ready = start?.status === 'READY' ? start.transitions.at(-1)?.time : undefined;
  return [ready, messages?.lastDeliveredTime, interruption?.lastResumeTime].some((time) =>
    isWithin(staleStateMs, time, nowMs),
  );
}

/** Returns the maximum interval for a template's idle timeout. */
export const maxForIdleTimeout = (idleTimeoutMs: number | undefined): number | undefined =>
  idleTimeoutMs === undefined ? undefined : idleTimeoutMs / 4;
