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

/** Delay before a change of usage alone is written, in milliseconds. */
const usageMs = 30_000;
/**
 * Delay before another reason of a starting sandbox is written, in milliseconds: longer than a
 * start takes with its image on the node.
 */
const reasonMs = 3_000;

/**
 * Rate limit of one owner's observation writes: a polled agent may change something at every poll,
 * and one owner may have hundreds of agents.
 */
const budget: TokenBucketOptions = { burst: 100, intervalMs: 50 };
/** Maximum owners whose budgets are in memory. A forgotten budget is a full one. */
const maxOwners = 10_000;

/**
 * Usage changes all the time while an agent works, and no client waits for a change of usage. The
 * result of a run is written with its status, or else with the usage.
 */
const withoutUsage = ({
  metrics: _metrics,
  lastActivityTime: _time,
  lastResult: _result,
  ...others
}: ConversationStatus): ConversationStatus => others;

/** The reasons of an ordinary start follow each other within milliseconds or a few seconds. */
const withoutReason = ({
  sandboxStatusReason: _reason,
  ...others
}: ConversationStatus): ConversationStatus => others;

/** The status without the fields that an agent alone decides, and may change at every poll. */
const withoutObservations = ({
  title: _title,
  executionStatus: _status,
  executionDetail: _detail,
  ...others
}: ConversationStatus): ConversationStatus => withoutUsage(others);

/** Statuses of a run for which neither a person nor the quota waits. */
const inPassing: ReadonlySet<unknown> = new Set<ExecutionStatus>(['idle', 'running']);

/**
 * Whether a change only shows progress of the agent. The first status of a run, and a status in
 * which the run ends or waits for a person, is more than that.
 */
const isObservation = (next: ConversationStatus, stored: ConversationStatus): boolean =>
  stored.executionStatus !== undefined &&
  (next.executionStatus === stored.executionStatus || inPassing.has(next.executionStatus)) &&
  isDeepStrictEqual(withoutObservations(next), withoutObservations(stored));

/** Time that a write may wait for another one, and whether it needs a token of its owner. */
interface Pace {
  readonly delayMs: number;
  readonly isObservation: boolean;
}

const atOnce: Pace = { delayMs: 0, isObservation: false };

function paceOf(next: ConversationStatus, stored: ConversationStatus | undefined): Pace {
  if (stored === undefined || isDeepStrictEqual(next, stored)) return atOnce;
  const [nextState, storedState] = [withoutUsage(next), withoutUsage(stored)];
  if (isDeepStrictEqual(nextState, storedState)) return { delayMs: usageMs, isObservation: true };
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
 * Delays writes of usage, and of the reason of a starting sandbox, until another field changes, for
 * example at the end of a run, or until the delay is over. Writes of observations take a token of
 * their owner's bucket, in the order of arrival; a write for which people or the quota wait takes
 * none, and contains the observations too. All of this is in memory only; a new process delays
 * anew.
 */
export class StatusCoalescer {
  readonly #clock: Clock;
  /** Deadlines of delayed writes, by conversation. */
  readonly #dueAt = new Map<string, number>();
  /**
   * Times of the tokens that conversations wait for. A conversation keeps its token until that time
   * even when its write has become unnecessary: an agent that alternates at every poll takes no
   * further one.
   */
  readonly #tokenAt = new Map<string, number>();
  readonly #budgets = recentlyUsed<TokenBucket>(maxOwners);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Whether to delay the write for now. A caller that receives false has to write. */
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

  /** Records that the stored status is up to date. */
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
    // The token of an earlier time is lost, unless the write has waited for it.
    if (known !== undefined && (known > now || known === withheldUntil)) return known;
    const bucket = this.#budgets.get(owner) ?? new TokenBucket(budget);
    this.#budgets.set(owner, bucket);
    const tokenAt = Math.max(now, bucket.readyAt);
    bucket.take(now);
    this.#tokenAt.set(key, tokenAt);
    return tokenAt;
  }
}

/** The code of a start comes from the API server: an unknown value gets no series of its own. */
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
   * Writes a changed status on the version of the conversation that was read. Returns the stored
   * conversation and status; undefined without a write. `isPolled`: the agent has just reported all
   * usage, so an unchanged status leaves no write to delay. A start has no usage.
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
    // Caches lack the text, which would be a difference at the next write.
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
