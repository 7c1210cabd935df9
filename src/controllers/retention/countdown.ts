import { isToContinue } from '../../quota/idleness.ts';
import { usesSlot } from '../../quota/classify.ts';
import { findCondition, type Condition } from '../../resources/conditions.ts';
import {
  ConversationCondition,
  finishedReasonOf,
  isStartOver,
  startStatusOf,
  undeliveredMessages,
} from '../../resources/conversation.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import {
  SandboxCondition,
  SandboxReason,
  isWarmSandbox,
  resumeRequestOf,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { slotTaken, viewOfSandbox } from '../../status/sandbox-phase.ts';
import { durationMs, type SandboxTemplate } from '../../resources/sandbox-template.ts';

/** Reason and message of the condition Expiring and of the Event that announce a deletion. */
interface Announcement {
  readonly reason: RetentionRule;
  readonly message: string;
}

export type RetentionStep =
  /** The object is kept, and no deletion is announced. */
  | { readonly kind: 'rest' }
  /** The announced deletion is cancelled: the object was used again, or is kept for longer. */
  | { readonly kind: 'withdraw' }
  | { readonly kind: 'wait'; readonly forMs: number }
  /** `atMs` is the time of the announcement; the deletion time in the message depends on it. */
  | { readonly kind: 'announce'; readonly announcement: Announcement; readonly atMs: number }
  /** The object may be deleted since `atMs`, in milliseconds since 1970, by the wall clock. */
  | { readonly kind: 'due'; readonly rule: RetentionRule; readonly atMs: number };

interface RetentionFacts {
  readonly countdown: Countdown | undefined;
  readonly announced: Condition | undefined;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** Minimum time between the announcement and the deletion. Default 60,000 ms. */
  readonly minLeadMs?: number | undefined;
}

const defaultMinLeadMs = 60_000;
const maxLeadMs = 3_600_000;

/** Milliseconds between announcement and deletion: a tenth of the period, 1 min to 1 h. */
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

/** Decides the next step for an object. A pure function. */
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
  // The lead time separates announcement and deletion, even if the object is overdue.
  const deletionMs = (announcedMs: number): number => Math.max(dueMs, announcedMs + lead);
  const announce: RetentionStep = {
    kind: 'announce',
    announcement: announcementOf(countdown, deletionMs(nowMs)),
    atMs: nowMs,
  };
  const announcedMs = Date.parse(announced?.lastTransitionTime ?? '');
  // An `announcedMs` later than `nowMs + lead` comes from a process whose wall clock was ahead.
  if (announced === undefined || Number.isNaN(announcedMs) || announcedMs > nowMs + lead)
    return announce;
  // A use of the object after the announcement restarts the period, even a period shorter than the
  // lead time: the deletion is announced again.
  if (announcedMs < sinceMs && sinceMs <= nowMs) return announce;
  const atMs = deletionMs(announcedMs);
  const expected = announcementOf(countdown, atMs);
  if (announced.reason !== expected.reason || announced.message !== expected.message)
    return announce;
  return nowMs < atMs ? { kind: 'wait', forMs: atMs - nowMs } : { kind: 'due', rule, atMs };
}

/** Settings that delete objects, as reasons of the condition Expiring and labels of a metric. */
export const RetentionRule = {
  finished: 'Finished',
  failed: 'Failed',
  paused: 'Paused',
  records: 'Records',
} as const;
export type RetentionRule = (typeof RetentionRule)[keyof typeof RetentionRule];

/** The period for which a rule keeps an object: `keptMs` from `sinceMs`, in Unix milliseconds. */
export interface Countdown {
  readonly subject: 'conversation' | 'sandbox';
  readonly rule: RetentionRule;
  readonly sinceMs: number;
  readonly keptMs: number;
  /** The setting as text, such as `retention.paused of the template default is 720h`. */
  readonly setting: string;
}

export interface ConversationFacts {
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  readonly conversation: CachedConversation;
  /** The sandbox of the conversation; undefined when the sandbox is deleted. */
  readonly sandbox: Sandbox | undefined;
  readonly template: SandboxTemplate | undefined;
}

export interface SandboxFacts {
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  readonly sandbox: Sandbox;
  readonly conversations: readonly CachedConversation[];
  readonly template: SandboxTemplate | undefined;
}

const earliest = (countdowns: readonly (Countdown | undefined)[]): Countdown | undefined =>
  countdowns
    .flatMap((each) => each ?? [])
    // An unreadable time deletes nothing.
    .filter(({ sinceMs, keptMs }) => Number.isFinite(sinceMs + keptMs))
    .sort((one, other) => one.sinceMs + one.keptMs - (other.sinceMs + other.keptMs))[0];

type TemplateRule = keyof NonNullable<SandboxTemplate['spec']['retention']>;

function byTemplate(
  template: SandboxTemplate | undefined,
  subject: Countdown['subject'],
  rule: TemplateRule,
  sinceMs: number,
): Countdown | undefined {
  const kept = template?.spec.retention?.[rule];
  if (template === undefined || kept === undefined) return undefined;
  const setting = `retention.${rule} of the template ${template.metadata.name} is ${kept}`;
  return { subject, rule: RetentionRule[rule], sinceMs, keptMs: durationMs(kept), setting };
}

const transitionMs = ({ status }: CachedConversation | Sandbox, type: string): number =>
  Date.parse(findCondition(status?.conditions, type)?.lastTransitionTime ?? '');

/** The latest of the times, without those of `others` that are NaN. */
const latest = (first: number, ...others: readonly number[]): number =>
  Math.max(first, ...others.filter((ms) => !Number.isNaN(ms)));

/**
 * Time of the last use of a conversation: its end, or a later activity or message. The clock of the
 * agent can postpone a deletion, but never cause an earlier one.
 */
const endMs = (conversation: CachedConversation): number => {
  const { lastActivityTime = '', messages } = conversation.status ?? {};
  return latest(
    transitionMs(conversation, ConversationCondition.finished),
    Date.parse(lastActivityTime),
    Date.parse(messages?.lastDeliveredTime ?? ''),
  );
};

/** Time at which a person last requested a resume; NaN for no request or a future time. */
function requestedMs(sandbox: Sandbox, nowMs: number): number {
  const ms = Date.parse(resumeRequestOf(sandbox) ?? '');
  return ms <= nowMs ? ms : Number.NaN;
}

/** Whether the sandbox is still starting, or still stopping after a pause or a failure. */
function isChanging(sandbox: Sandbox): boolean {
  const { phase } = viewOfSandbox(sandbox);
  return phase === 'STARTING' || (phase !== 'RUNNING' && (usesSlot(sandbox) || slotTaken(sandbox)));
}

/** The countdown of a conversation; undefined if the conversation is kept. A pure function. */
export function countdownOfConversation({
  conversation,
  sandbox,
  template,
  nowMs,
}: ConversationFacts): Countdown | undefined {
  const { metadata, spec, status } = conversation;
  if (metadata.deletionTimestamp !== undefined || finishedReasonOf(conversation) === undefined)
    return undefined;
  if (findCondition(status?.conditions, ConversationCondition.finished)?.status !== 'True')
    return undefined;
  if (sandbox !== undefined && isChanging(sandbox)) return undefined;
  const overMs = endMs(conversation);
  // A resume and a pause change the time of the condition Admitted. Only `pauseTime` shows the
  // pause of a sandbox that waits for admission.
  const pausedMs = Date.parse(sandbox?.status?.pauseTime ?? '');
  const sinceMs =
    sandbox === undefined
      ? overMs
      : latest(
          overMs,
          transitionMs(sandbox, SandboxCondition.admitted),
          pausedMs,
          requestedMs(sandbox, nowMs),
        );
  const { ttlSecondsAfterFinished: seconds } = spec;
  const own: Countdown | undefined =
    seconds === undefined
      ? byTemplate(
          template,
          'conversation',
          startStatusOf(conversation) === 'ERROR' ? 'failed' : 'finished',
          sinceMs,
        )
      : {
          subject: 'conversation',
          rule: RetentionRule.finished,
          sinceMs,
          keptMs: seconds * 1000,
          setting: `its ttlSecondsAfterFinished is ${seconds}`,
        };
  const isGone = status?.sandboxStatus === 'MISSING' && sandbox === undefined;
  return earliest([
    own,
    isGone ? byTemplate(template, 'conversation', 'records', overMs) : undefined,
  ]);
}

/** Whether the conversation has unfinished work, for which the operator resumes its sandbox. */
const isUnfinished = (conversation: CachedConversation): boolean =>
  conversation.status?.executionStatus === 'running' || isToContinue(conversation);

/** Whether the start of the conversation is not over, or messages are undelivered. */
const isUnderWay = (conversation: CachedConversation): boolean =>
  !isStartOver(startStatusOf(conversation)) || undeliveredMessages(conversation).length > 0;

/**
 * The countdown of a sandbox and its volume. Undefined for a sandbox that is kept according to
 * `SandboxFacts`, and for a warm sandbox, which only its pool deletes. A pure function.
 */
export function countdownOfSandbox({
  sandbox,
  conversations,
  template,
  nowMs,
}: SandboxFacts): Countdown | undefined {
  if (
    sandbox.metadata.deletionTimestamp !== undefined ||
    isWarmSandbox(sandbox) ||
    slotTaken(sandbox) ||
    conversations.some(isUnderWay)
  )
    return undefined;
  const { phase, reason } = viewOfSandbox(sandbox);
  if (phase === 'ERROR')
    return earliest([
      byTemplate(
        template,
        'sandbox',
        'failed',
        latest(transitionMs(sandbox, SandboxCondition.failed), requestedMs(sandbox, nowMs)),
      ),
    ]);
  if (phase !== 'PAUSED' || usesSlot(sandbox)) return undefined;
  const interrupted = (sandbox.status?.interruptedConversationIDs?.length ?? 0) > 0;
  const unfinished = conversations.some(isUnfinished);
  if (reason === SandboxReason.quota && (interrupted || unfinished)) return undefined;
  // The agent may have received a message at the moment of the pause; its work has to resume.
  if (reason === SandboxReason.idle && unfinished) return undefined;
  return earliest([
    byTemplate(
      template,
      'sandbox',
      'paused',
      latest(Date.parse(sandbox.status?.pauseTime ?? ''), requestedMs(sandbox, nowMs)),
    ),
  ]);
}
