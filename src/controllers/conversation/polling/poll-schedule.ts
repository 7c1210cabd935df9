import type { Clock } from '@conversation-operator/kube/clock';
import type { ConversationStatus } from '../../../resources/conversation.ts';
import {
  fullBudget,
  hintAttentionMs,
  intervalMs,
  isFresh,
  leastGapMs,
  nextOnGrid,
  phaseOf,
  spend,
  type HintBudget,
} from './poll-interval.ts';

/** What one look has shown. */
export interface Seen {
  /** When it was asked for, on the monotonic clock. */
  readonly beganAt: number;
  /** What was looked at: another container, or another word of its owner, is looked at at once. */
  readonly subject: string;
  readonly sandboxUid: string;
  /** The container: that one was heard says nothing of the next. */
  readonly agent: string;
  /** What is stored of it now. */
  readonly status: ConversationStatus;
  /** By the agent's own word, which may not count yet. */
  readonly runs: boolean;
  /** It differs from what was known. */
  readonly changed: boolean;
  /** … in what agents send webhooks of. */
  readonly telling: boolean;
  /** What has to be done again sooner than the cadence says. */
  readonly againAfterMs?: number | undefined;
  readonly mostMs?: number | undefined;
}

interface Pace {
  subject: string;
  agent: string;
  /** Its webhooks come: a hint has, and since then nothing has changed without one. */
  heard: boolean;
  changedAt: number;
  lookedAt: number;
  dueAt: number;
  budget: HintBudget;
  attentiveUntil: number;
  hint: { readonly at: number; readonly dueAt: number } | undefined;
}

/** Between an agent's status and what it stores along with it. */
const settleMs = 500;

/**
 * When each conversation is due for a look. Kept in memory alone: a process that does not know looks at once. A hint changes
 * nothing but the time of the next look, and only so often.
 */
export class Paces {
  readonly #clock: Clock;
  readonly #paces = new Map<string, Pace>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#paces.size;
  }

  /** Milliseconds until it is due; 0: now. */
  waitMs(key: string, subject: string): number {
    const pace = this.#paces.get(key);
    if (pace?.subject !== subject) return 0;
    return Math.max(0, Math.min(pace.dueAt, pace.hint?.dueAt ?? Infinity) - this.#clock.monotonic());
  }

  /** Somebody says that it is worth a look. Milliseconds until that; undefined where nothing is looked at. */
  hint(key: string): number | undefined {
    const pace = this.#paces.get(key);
    if (pace === undefined) return undefined;
    const now = this.#clock.monotonic();
    pace.heard = true;
    if (pace.hint === undefined) {
      const { budget, dueAt, attentive } = spend(pace.budget, now);
      pace.budget = budget;
      if (attentive) pace.attentiveUntil = now + hintAttentionMs;
      pace.hint = { at: now, dueAt: Math.max(dueAt, pace.lookedAt + leastGapMs) };
    } else {
      // Still to be acted on: a look that is under way has begun before this one.
      pace.hint = { ...pace.hint, at: now };
    }
    return Math.max(0, pace.hint.dueAt - now);
  }

  /** Afterwards the time of the next look is known. Returns the milliseconds until then. */
  looked(key: string, seen: Seen): number {
    const { beganAt, subject, sandboxUid, agent, status, runs, changed, telling, againAfterMs = Infinity, mostMs } = seen;
    const now = this.#clock.monotonic();
    const known = this.#paces.get(key);
    const pace: Pace = known ?? {
      subject,
      agent,
      heard: false,
      changedAt: -Infinity,
      lookedAt: beganAt,
      dueAt: now,
      budget: fullBudget(now),
      attentiveUntil: -Infinity,
      hint: undefined,
    };
    if (changed) pace.changedAt = now;
    const expected = pace.hint !== undefined || now < pace.attentiveUntil;
    if (agent !== pace.agent || (telling && !expected)) pace.heard = false;
    // What was said is found; once more for what may have lagged behind it.
    if (telling) pace.attentiveUntil = Math.min(pace.attentiveUntil, now + settleMs);
    if (pace.hint !== undefined && pace.hint.at <= beganAt) pace.hint = undefined;
    const attentive = now < pace.attentiveUntil || isFresh(status, this.#clock.now());
    const executionStatus = runs ? 'running' : status.executionStatus;
    const interval = intervalMs({ executionStatus, quietMs: now - pace.changedAt, attentive, heard: pace.heard, mostMs });
    pace.subject = subject;
    pace.agent = agent;
    pace.lookedAt = beganAt;
    pace.dueAt = Math.min(now + againAfterMs, attentive ? now + interval : nextOnGrid(now, interval, phaseOf(sandboxUid)));
    this.#paces.set(key, pace);
    return this.waitMs(key, subject);
  }

  forget(key: string): void {
    this.#paces.delete(key);
  }
}
