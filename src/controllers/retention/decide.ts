import type { Condition } from '../../resources/conditions.ts';
import { RetentionRule, type Countdown } from './countdown.ts';

/** An announcement as the condition Expiring and the Event have it. */
export interface Announcement {
  readonly reason: RetentionRule;
  readonly message: string;
}

export type RetentionStep =
  /** Nothing is to be deleted, and nothing is announced. */
  | { readonly kind: 'rest' }
  /** The announced deletion does not come: the object was used again, or is kept for longer. */
  | { readonly kind: 'withdraw' }
  | { readonly kind: 'wait'; readonly forMs: number }
  /** `atMs` is the time of the announcement, from which its message counts. */
  | { readonly kind: 'announce'; readonly announcement: Announcement; readonly atMs: number }
  /** The wall clock says that the time is over, which ends at `atMs` (since 1970). */
  | { readonly kind: 'due'; readonly rule: RetentionRule; readonly atMs: number };

export interface RetentionFacts {
  readonly countdown: Countdown | undefined;
  /** The condition Expiring as it is stored. */
  readonly announced: Condition | undefined;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** Minimum time between the announcement and the deletion. Default 60,000 ms. */
  readonly minLeadMs?: number | undefined;
}

export const defaultMinLeadMs = 60_000;
const maxLeadMs = 3_600_000;

/**
 * Time between the announcement and the deletion, in milliseconds: a tenth of the time that the
 * object is kept, 1 min to 1 h.
 */
export const leadMs = (keptMs: number, minLeadMs = defaultMinLeadMs): number =>
  Math.min(maxLeadMs, Math.max(minLeadMs, keptMs / 10));

function announcementOf({ rule, subject, setting }: Countdown, atMs: number): Announcement {
  const also =
    subject === 'sandbox'
      ? ', with its volume unless that is retained'
      : rule === RetentionRule.records
        ? ''
        : ', with its own sandbox';
  const postponed =
    subject === 'sandbox'
      ? ' A resume or a message postpones that.'
      : rule === RetentionRule.finished
        ? ' A message, or a resume of its sandbox, postpones that.'
        : '';
  return {
    reason: rule,
    message: `The ${subject} is deleted after ${new Date(atMs).toISOString()}${also}: ${setting}.${postponed}`,
  };
}

/** Decides the next step for an object. Pure: the same facts give the same step. */
export function decideRetention({
  countdown,
  announced,
  nowMs,
  minLeadMs,
}: RetentionFacts): RetentionStep {
  if (countdown === undefined) return { kind: announced === undefined ? 'rest' : 'withdraw' };
  const { sinceMs, keptMs, rule } = countdown;
  const dueMs = sinceMs + keptMs;
  const lead = leadMs(keptMs, minLeadMs);
  const earlyMs = dueMs - lead - nowMs;
  if (earlyMs > 0)
    return announced === undefined ? { kind: 'wait', forMs: earlyMs } : { kind: 'withdraw' };
  // The lead lies between the announcement and the deletion, however late the object was found.
  const deletionMs = (announcedMs: number): number => Math.max(dueMs, announcedMs + lead);
  const announce: RetentionStep = {
    kind: 'announce',
    announcement: announcementOf(countdown, deletionMs(nowMs)),
    atMs: nowMs,
  };
  const announcedMs = Date.parse(announced?.lastTransitionTime ?? '');
  // An announcement of the future was written by a clock that was ahead.
  if (announced === undefined || Number.isNaN(announcedMs) || announcedMs > nowMs + lead)
    return announce;
  // A use after the announcement takes the time anew, also where the object is kept for less than
  // the lead.
  if (announcedMs < sinceMs && sinceMs <= nowMs) return announce;
  const atMs = deletionMs(announcedMs);
  const expected = announcementOf(countdown, atMs);
  if (announced.reason !== expected.reason || announced.message !== expected.message)
    return announce;
  return nowMs < atMs ? { kind: 'wait', forMs: atMs - nowMs } : { kind: 'due', rule, atMs };
}
