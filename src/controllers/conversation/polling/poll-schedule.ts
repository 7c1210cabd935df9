import type { Clock } from '@conversation-operator/base/clock';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { intervalMs, isStateStale, minGapMs, nextOnGrid, phaseOf } from './poll-interval.ts';

/** Polls of one conversation that notifications bring forward. */
export const notificationBudget = { burst: 6, intervalMs: 2_000 } as const;

/** Outcome of one poll. */
export interface PollOutcome {
  /** Time of the request, on the monotonic clock. */
  readonly beganAt: number;
  /** Identity of what was polled; a conversation with another subject is due at once. */
  readonly subject: string;
  readonly sandboxUid: string;
  /** Container of the agent. Webhooks of one container say nothing about the next. */
  readonly agent: string;
  /** Status as stored after the poll. */
  readonly status: ConversationStatus;
  /** Whether the agent reports a running run, which the status may not show yet. */
  readonly isRunning: boolean;
  /** Whether the poll has found a change. */
  readonly changed: boolean;
  /** Whether the poll has found a change for which agents send webhooks. */
  readonly notifiable: boolean;
  /** Delay before a step that has to be repeated sooner than the interval. */
  readonly againAfterMs?: number | undefined;
  readonly maxMs?: number | undefined;
}

interface Entry {
  subject: string;
  agent: string;
  /** Whether a webhook has arrived, and no change has been found without one since. */
  notifies: boolean;
  changedAt: number;
  polledAt: number;
  dueAt: number;
  readonly budget: TokenBucket;
  attentiveUntil: number;
  /** Last notification that no poll has followed. */
  notification: { readonly at: number; readonly dueAt: number } | undefined;
}

/**
 * Time after a notification during which the stored state of the agent may lag behind, so that
 * polls are repeated.
 */
const attentionMs = 2_000;
/**
 * Time after a change of an agent's status during which the agent stores the rest of the change.
 */
const settleMs = 500;

/**
 * Holds the time of the next poll of each conversation, in memory only: a new process polls every
 * conversation at once. A notification changes nothing but the time of the next poll, within the
 * budget of the conversation.
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

  /** Milliseconds until the conversation is due; 0: now. */
  waitMs(key: string, subject: string): number {
    const entry = this.#entries.get(key);
    if (entry?.subject !== subject) return 0;
    return Math.max(
      0,
      Math.min(entry.dueAt, entry.notification?.dueAt ?? Infinity) - this.#clock.monotonic(),
    );
  }

  /**
   * Takes a notification about a conversation. Returns the milliseconds until the poll; undefined
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
      // The repeated polls find what the agent stores a moment later.
      if (entry.budget.availableAt(now) > 0) entry.attentiveUntil = now + attentionMs;
      entry.notification = { at: now, dueAt: Math.max(now, dueAt, entry.polledAt + minGapMs) };
    } else {
      // A poll that is under way has begun before this notification, so another poll has to follow.
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
      ...{ subject, agent, notifies: false, changedAt: -Infinity, polledAt: beganAt, dueAt: now },
      ...{
        budget: new TokenBucket(notificationBudget),
        attentiveUntil: -Infinity,
        notification: undefined,
      },
    };
    if (changed) entry.changedAt = now;
    const isExpected = entry.notification !== undefined || now < entry.attentiveUntil;
    if (agent !== entry.agent || (notifiable && !isExpected)) entry.notifies = false;
    // The expected change is found; one more poll finds what the agent stores after the change.
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
