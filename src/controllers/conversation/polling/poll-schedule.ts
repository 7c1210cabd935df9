import type { Clock } from '@conversation-operator/base/clock';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../resources/conversation-status.ts';
import { isWithin } from '../../elapsed-times.ts';

/** Times in this file are milliseconds of a monotonic clock, unless said otherwise. */

const maxIntervalMs = 64_000;

/**
 * Minimum and maximum time between two polls, by status of the run. With webhooks, each change is
 * known at once. Without webhooks, a change of a running run is known within 5 s, others later.
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
/** Maximum time between two polls if webhooks arrive. Polls then only replace lost webhooks. */
const maxNotifyingMs = 16_000;
/** The interval is at most the time without a change, divided by this number. */
const quietDivisor = 4;
/** Maximum time between two polls while a change is expected. */
const attentiveMs = 500;
/** Time after a message or a resume in which the agent's report may be from before this event. */
const staleStateMs = 3_000;
/** Minimum time between two polls of a conversation, whatever notifications arrive. */
const minGapMs = 200;

export interface IntervalInput {
  readonly executionStatus: ExecutionStatus | undefined;
  readonly quietMs: number;
  /** Whether a change is expected, because the agent has just received or sent something. */
  readonly attentive: boolean;
  /** Whether webhooks of the agent have arrived so far. */
  readonly notifies: boolean;
  /** Maximum interval in any status, so that polls notice soon that a sandbox is idle. */
  readonly maxMs?: number | undefined;
}

/** The `minMs` of the status times a power of two, so that the polls of a sandbox coincide. */
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
 * The next time after `now` that is a whole number of intervals after `phase`. Different phases
 * spread the polls of sandboxes over time.
 */
export const nextOnGrid = (now: number, interval: number, phase: number): number =>
  phase + (Math.floor((now - phase) / interval) + 1) * interval;

/**
 * Length of the time slots in which polls are due. Polls of one slot share a timer: 200 timers for
 * 200 sandboxes would cost a third of what their polls cost.
 */
export const slotMs = 100;

/** Derives a `phase` for `nextOnGrid` from a text: a multiple of `slotMs` below `maxIntervalMs`. */
export function phaseOf(text: string): number {
  let hash = 0;
  for (let index = 0; index < text.length; index++)
    hash = (hash * 31 + text.charCodeAt(index)) >>> 0;
  return (hash % (maxIntervalMs / slotMs)) * slotMs;
}

/** Whether the agent has just received a message or a resume. `nowMs` is since 1970. */
export function isStateStale(
  { start, messages, interruption }: ConversationStatus,
  nowMs: number,
): boolean {
  const ready = start?.status === 'READY' ? start.transitions.at(-1)?.time : undefined;
  return [ready, messages?.lastDeliveredTime, interruption?.lastResumeTime].some((time) =>
    isWithin(staleStateMs, time, nowMs),
  );
}

export const maxForIdleTimeout = (idleTimeoutMs: number | undefined): number | undefined =>
  idleTimeoutMs === undefined ? undefined : idleTimeoutMs / 4;

/** Rate limit of the polls of one conversation that notifications cause. */
export const notificationBudget = { burst: 6, intervalMs: 2_000 } as const;

export interface PollOutcome {
  /** Time of the request, on the monotonic clock. */
  readonly beganAt: number;
  /** Versions of the polled objects. If the value changes, the next poll is due at once. */
  readonly subject: string;
  readonly sandboxUid: string;
  /** Identity of the agent's container. Another container may be unable to send webhooks. */
  readonly agent: string;
  /** Status as stored after the poll. */
  readonly status: ConversationStatus;
  /** Whether the agent reports a running run, which the status may not show yet. */
  readonly isRunning: boolean;
  readonly changed: boolean;
  /** Whether the poll has found a change for which agents send webhooks. */
  readonly notifiable: boolean;
  /** Milliseconds until a step must be repeated, if that is before the next poll. */
  readonly againAfterMs?: number | undefined;
  readonly maxMs?: number | undefined;
}

interface Entry {
  subject: string;
  agent: string;
  /** True after a webhook, until a poll finds a change that no webhook has announced. */
  notifies: boolean;
  changedAt: number;
  polledAt: number;
  dueAt: number;
  readonly budget: TokenBucket;
  attentiveUntil: number;
  /** The last notification, if no poll has begun since. */
  notification: { readonly at: number; readonly dueAt: number } | undefined;
}

/** Time of frequent polls after a notification, because the agent's report may lag behind it. */
const attentionMs = 2_000;
/** Time after a change of an agent's status in which the agent stores the rest of the change. */
const settleMs = 500;

/**
 * Holds the time of the next poll of each conversation, in memory only: a new process polls every
 * conversation at once. A notification only changes the time of the next poll, within the budget of
 * the conversation.
 */
export class PollSchedule {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Milliseconds until the next poll of the conversation is due; 0: now. */
  waitMs(key: string, subject: string): number {
    const entry = this.#entries.get(key);
    if (entry?.subject !== subject) return 0;
    return Math.max(
      0,
      Math.min(entry.dueAt, entry.notification?.dueAt ?? Infinity) - this.#clock.monotonic(),
    );
  }

  /**
   * Handles a notification about a conversation. Returns the milliseconds until the poll; undefined
   * for an unknown conversation.
   */
  notify(key: string): number | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const now = this.#clock.monotonic();
    entry.notifies = true;
    if (entry.notification === undefined) {
      const dueAt = entry.budget.readyAt;
      entry.budget.take(now);
      // Frequent polls find what the agent stores a moment after its notification.
      if (entry.budget.availableAt(now) > 0) entry.attentiveUntil = now + attentionMs;
      entry.notification = { at: now, dueAt: Math.max(now, dueAt, entry.polledAt + minGapMs) };
    } else {
      // A poll in progress began before this notification, so another poll has to follow.
      entry.notification = { ...entry.notification, at: now };
    }
    return Math.max(0, entry.notification.dueAt - now);
  }

  /** Records a poll. Returns the milliseconds until the next one. */
  record(key: string, outcome: PollOutcome): number {
    const {
      beganAt,
      subject,
      sandboxUid,
      agent,
      status,
      isRunning,
      changed,
      notifiable,
      againAfterMs = Infinity,
      maxMs,
    } = outcome;
    const now = this.#clock.monotonic();
    const entry: Entry = this.#entries.get(key) ?? {
      subject,
      agent,
      notifies: false,
      changedAt: -Infinity,
      polledAt: beganAt,
      dueAt: now,
      budget: new TokenBucket(notificationBudget),
      attentiveUntil: -Infinity,
      notification: undefined,
    };
    if (changed) entry.changedAt = now;
    const isExpected = entry.notification !== undefined || now < entry.attentiveUntil;
    if (agent !== entry.agent || (notifiable && !isExpected)) entry.notifies = false;
    // The poll has found the expected change. One more poll finds what the agent stores after it.
    if (notifiable) entry.attentiveUntil = Math.min(entry.attentiveUntil, now + settleMs);
    if (entry.notification !== undefined && entry.notification.at <= beganAt)
      entry.notification = undefined;
    const attentive = now < entry.attentiveUntil || isStateStale(status, this.#clock.now());
    const executionStatus = isRunning ? 'running' : status.executionStatus;
    const interval = intervalMs({
      executionStatus,
      quietMs: now - entry.changedAt,
      attentive,
      notifies: entry.notifies,
      maxMs,
    });
    const dueAt = Math.min(
      now + againAfterMs,
      attentive ? now + interval : nextOnGrid(now, interval, phaseOf(sandboxUid)),
    );
    this.#entries.set(key, Object.assign(entry, { subject, agent, polledAt: beganAt, dueAt }));
    return this.waitMs(key, subject);
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }
}
