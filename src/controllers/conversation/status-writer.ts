import { isDeepStrictEqual } from 'node:util';
import { isoTime } from '@conversation-operator/base/clock';
import type { EventRecorder } from '@conversation-operator/kube/events';
import { oneOf } from '../../observability/label-rules.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { withoutText } from '../../resources/approval.ts';
import { lacksFinishedCondition, withProjection } from '../../resources/conversation-projection.ts';
import { conversations, isStartOver, startStatusOf } from '../../resources/conversation.ts';
import type { ConversationStatus } from '../../resources/conversation-status.ts';
import { SandboxFailure } from '../sandbox/decide.ts';
import { FailureCode } from '../sandbox/failure.ts';
import { ownerShare } from '../workers.ts';
import { eventsOfApproval } from './approvals/approval-events.ts';
import { eventOfRun } from './execution/run-events.ts';
import { requestKey } from '../event-source.ts';
import { eventOfStart, finishedStages } from './start/start-events.ts';
import { StartErrorCode } from './start/start-failure.ts';
import type { StatusCoalescer } from './status-coalescer.ts';
import type { RecentAnswers } from './recent-answers.ts';
import type { OperatorRuntime } from '../operator-runtime.ts';

/** The code of a start is read from the API server: another value than these gets no series. */
const knownCode = oneOf(
  [StartErrorCode, SandboxFailure, FailureCode].flatMap((codes) => Object.values(codes)),
);

export interface StatusWriterOptions extends Pick<
  OperatorRuntime,
  'client' | 'clock' | 'logger' | 'metrics'
> {
  readonly coalescer: StatusCoalescer;
  readonly answers: Pick<RecentAnswers, 'remember' | 'written'>;
  readonly events: Pick<EventRecorder, 'record'>;
}

/** Writes the status of conversations, and reports each change by Events, metrics and logs. */
export class StatusWriter {
  readonly #options: StatusWriterOptions;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /**
   * Writes the status if it differs, on the version of the conversation that was read. Returns the
   * conversation and the status that were stored; undefined without a write. `isPolled`: the agent
   * has just reported all usage, so a status without changes leaves no write to withhold. A start
   * has no usage.
   */
  async write(
    before: CachedConversation,
    { next, isPolled }: { readonly next: ConversationStatus; readonly isPolled: boolean },
    signal: AbortSignal,
  ): Promise<
    { readonly stored: CachedConversation; readonly status: ConversationStatus } | undefined
  > {
    const { client, clock, coalescer, answers } = this.#options;
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
    const sentAt = clock.monotonic();
    const answer = await client.updateStatus(
      conversations,
      { ...before, status },
      { signal, from: before.status },
    );
    const stored = cachedConversation(answer);
    answers.written(stored, sentAt);
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
