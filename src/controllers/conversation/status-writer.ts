import { type RecordingNeeds, ownerShare, requestKey } from '../controller-spec.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { Request } from '@conversation-operator/kube/controller';
import { isDeepStrictEqual } from 'node:util';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { oneOf } from '../../observability/closed-metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { withoutText } from '../../resources/approval.ts';
import { lacksFinishedCondition, withProjection } from '../../status/conversation-projection.ts';
import { conversations, isStartOver, startStatusOf } from '../../resources/conversation.ts';
import type { ConversationStatus, ExecutionStatus } from '../../resources/conversation-status.ts';
import { SandboxFailure } from '../sandbox/decide.ts';
import { FailureCode } from '../sandbox/failure.ts';
import { eventsOfApproval } from './approvals/decide.ts';
import { eventOfRun } from './execution/run-resume.ts';
import { eventOfStart, finishedStages } from './start/start-status.ts';
import { StartErrorCode } from './start/stage.ts';
import type { RecentAnswers } from './recent-answers.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { TokenBucket, type TokenBucketOptions } from '@conversation-operator/base/token-bucket';

/** Delay before a write of only the fields that `withoutUsage` removes, in milliseconds. */
const usageMs = 30_000;
/**
 * Delay before a write of only the reason of a starting sandbox, in milliseconds: longer than a
 * start takes when the node has the image.
 */
const reasonMs = 3_000;

/** Delay before a write of only the usage of models, in milliseconds, while the agent works. */
const modelUsageMs = 5_000;

/**
 * Rate limit of the writes of one owner that only show progress (`isObservation`). An agent may
 * change something at every poll, and one owner may have hundreds of agents.
 */
const budget: TokenBucketOptions = { burst: 100, intervalMs: 50 };
/** Maximum owners whose budgets are in memory. An evicted owner starts with a full budget. */
const maxOwners = 10_000;

/**
 * The status without the fields that change all the time while an agent works, and for which no
 * client waits. A change of `lastResult` is written with the status of its run, or after `usageMs`.
 */
const withoutUsage = ({
  metrics: _metrics,
  lastActivityTime: _time,
  lastResult: _result,
  usage: _usage,
  ...others
}: ConversationStatus): ConversationStatus => others;

/** The status without the reason, which changes within milliseconds or seconds during a start. */
const withoutReason = ({
  sandboxStatusReason: _reason,
  ...others
}: ConversationStatus): ConversationStatus => others;

/** The status without the fields that only the agent decides and that may change at every poll. */
const withoutObservations = ({
  title: _title,
  executionStatus: _status,
  executionDetail: _detail,
  ...others
}: ConversationStatus): ConversationStatus => withoutUsage(others);

/** Statuses of a run that are not urgent, because no person and no quota waits for them. */
const inPassing: ReadonlySet<unknown> = new Set<ExecutionStatus>(['idle', 'running']);

/**
 * Whether a change only shows progress of the agent. The first status of a run is more than
 * progress, and so is a status with which the run ends or waits for a person.
 */
const isObservation = (next: ConversationStatus, stored: ConversationStatus): boolean =>
  stored.executionStatus !== undefined &&
  (next.executionStatus === stored.executionStatus || inPassing.has(next.executionStatus)) &&
  isDeepStrictEqual(withoutObservations(next), withoutObservations(stored));

/** Time for which a write may be delayed, and whether it needs a token of its owner's budget. */
interface Pace {
  readonly delayMs: number;
  readonly isObservation: boolean;
}

const atOnce: Pace = { delayMs: 0, isObservation: false };

function paceOf(next: ConversationStatus, stored: ConversationStatus | undefined): Pace {
  if (stored === undefined || isDeepStrictEqual(next, stored)) return atOnce;
  const [nextState, storedState] = [withoutUsage(next), withoutUsage(stored)];
  if (isDeepStrictEqual(nextState, storedState)) {
    if (isDeepStrictEqual(next.usage, stored.usage))
      return { delayMs: usageMs, isObservation: true };
    // Delays end with a pause, and the last calls are counted after it.
    return next.sandboxStatus === 'RUNNING'
      ? { delayMs: modelUsageMs, isObservation: true }
      : atOnce;
  }
  if (isObservation(next, stored)) return { delayMs: 0, isObservation: true };
  const isStarting =
    !isStartOver(startStatusOf({ status: next })) && next.sandboxStatus === 'STARTING';
  return isStarting && isDeepStrictEqual(withoutReason(nextState), withoutReason(storedState))
    ? { delayMs: reasonMs, isObservation: false }
    : atOnce;
}

interface StatusOwner {
  readonly key: string;
  readonly owner: string;
}

/**
 * Delays writes of usage (`withoutUsage`), and of the reason of a starting sandbox, until another
 * field changes, for example at the end of a run, or until the delay is over. Writes that only show
 * progress (`isObservation`) take a token of their owner's budget, in the order of arrival. Other
 * writes take no token, and contain the progress too. All of this is in memory only; a new process
 * starts all delays again.
 */
export class StatusCoalescer {
  readonly #clock: Clock;
  /** Deadlines of delayed writes, by conversation. */
  readonly #dueAt = new Map<string, number>();
  /**
   * Times of the tokens that conversations wait for. A conversation keeps its token until that time
   * even when its write has become unnecessary: an agent that alternates between two statuses at
   * every poll takes no further token.
   */
  readonly #tokenAt = new Map<string, number>();
  readonly #budgets = recentlyUsed<TokenBucket>(maxOwners);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Whether the write is delayed. A caller that receives false has to write. */
  withheld(
    { key, owner }: StatusOwner,
    next: ConversationStatus,
    stored: ConversationStatus | undefined,
  ): boolean {
    const now = this.#clock.monotonic();
    const pace = paceOf(next, stored);
    const withheldUntil = this.#dueAt.get(key) ?? Infinity;
    let dueAt = pace === atOnce ? now : Math.min(withheldUntil, now + pace.delayMs);
    if (pace.isObservation && dueAt <= now) dueAt = this.#tokenTime(key, owner, withheldUntil);
    if (dueAt > now) {
      this.#dueAt.set(key, dueAt);
      return true;
    }
    this.#dueAt.delete(key);
    if (pace.isObservation) this.#tokenAt.delete(key);
    return false;
  }

  /** Milliseconds until the delayed write is due; Infinity when none is delayed. */
  waitMs(key: string): number {
    return Math.max(0, (this.#dueAt.get(key) ?? Infinity) - this.#clock.monotonic());
  }

  /** Records that the stored status is up to date, so that no write is delayed. */
  settle(key: string): void {
    this.#dueAt.delete(key);
  }

  forget(key: string): void {
    this.settle(key);
    this.#tokenAt.delete(key);
  }

  #tokenTime(key: string, owner: string, withheldUntil: number): number {
    const now = this.#clock.monotonic();
    const known = this.#tokenAt.get(key);
    // A token whose time is past is lost, unless the write was delayed until that time.
    if (known !== undefined && (known > now || known === withheldUntil)) return known;
    const bucket = this.#budgets.get(owner) ?? new TokenBucket(budget);
    this.#budgets.set(owner, bucket);
    const tokenAt = Math.max(now, bucket.readyAt);
    bucket.take(now);
    this.#tokenAt.set(key, tokenAt);
    return tokenAt;
  }
}

/** Bounds the values of the metric's label, because `errorCode` comes from the API server. */
const knownCode = oneOf(
  [StartErrorCode, SandboxFailure, FailureCode].flatMap((codes) => Object.values(codes)),
);

export interface StatusWriterOptions extends RecordingNeeds {
  readonly metrics: Metrics;
  readonly answers: Pick<RecentAnswers, 'remember'>;
}

/** Writes the status of conversations, and reports each change by Events, metrics and logs. */
export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #coalescer: StatusCoalescer;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
    this.#coalescer = new StatusCoalescer(options);
  }

  /** Milliseconds until a delayed write is due; Infinity when none is delayed. */
  waitMs(conversation: Request): number {
    return this.#coalescer.waitMs(requestKey(conversation));
  }

  forget(conversation: Request): void {
    this.#coalescer.forget(requestKey(conversation));
  }

  /**
   * Writes a changed status with the resourceVersion of `before`. Returns the stored conversation
   * and status; undefined if nothing is written. `isPolled` says that the agent has just reported.
   * During a start, and if `isPolled` is true, an unchanged status cancels a delayed write.
   */
  async write(
    before: CachedConversation,
    { next, isPolled }: { readonly next: ConversationStatus; readonly isPolled: boolean },
    signal: AbortSignal,
  ): Promise<
    { readonly stored: CachedConversation; readonly status: ConversationStatus } | undefined
  > {
    const { client, clock, answers } = this.#options;
    const coalescer = this.#coalescer;
    const { title } = before.spec;
    const { generation } = before.metadata;
    const key = requestKey(before.metadata);
    const current: ConversationStatus = {
      ...next,
      observedGeneration: generation,
      ...(title === undefined ? {} : { title }),
    };
    if (isDeepStrictEqual(current, before.status) && !lacksFinishedCondition(before)) {
      if (isPolled || !isStartOver(startStatusOf({ status: current }))) coalescer.settle(key);
      return undefined;
    }
    if (coalescer.withheld({ key, owner: ownerShare(before) }, current, before.status))
      return undefined;
    const status = withProjection(before, current, generation, isoTime(clock));
    const answer = await client.updateStatus(
      conversations,
      { ...before, status },
      { signal, from: before.status },
    );
    const stored = cachedConversation(answer);
    if (!isStartOver(startStatusOf({ status }))) answers.remember(answer, stored.storedBytes);
    this.#report(before, status);
    const { approval } = status;
    // Caches lack the text of the approval. With the text, the next write would find a difference.
    return {
      stored,
      status: approval === undefined ? status : { ...status, approval: withoutText(approval) },
    };
  }

  #report(before: CachedConversation, status: ConversationStatus): void {
    const { events, logger, metrics } = this.#options;
    for (const event of [
      eventOfRun(before.status, status),
      eventOfStart(before.status, status),
      ...eventsOfApproval(before.status, status),
    ])
      if (event !== undefined) events.record(before, event);
    for (const { stage, seconds } of finishedStages(before.status, status))
      metrics.startStageSeconds.observe({ stage }, seconds);
    const now = startStatusOf({ status });
    if (now === startStatusOf(before)) return;
    const code = status.start?.errorCode;
    logger.info('start changed', { conversation: before.metadata.name, status: now, code });
    if (isStartOver(now))
      metrics.starts.inc({ outcome: now, code: code === undefined ? '' : knownCode(code) });
  }
}
