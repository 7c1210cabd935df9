import type { RecordingNeeds } from '../../controller-spec.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { AgentClient } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { questionTextOf } from '../../../agent/question-text.ts';
import { hidableSecrets } from '../../../agent/redaction.ts';
import {
  type Approval,
  type RecordedAnswer,
  answerTo,
  hasAnswerToGive,
} from '../../../resources/approval.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { abortedAfter } from '../../agent-calls/aborted-after.ts';
import { ElapsedTimes } from '../../elapsed-times.ts';
import { runKey, type PolledRun } from '../execution/run-observer.ts';
import type { Scope } from '../scope.ts';
import { keepsQuestions } from '../../../agent/kinds.ts';
import {
  hasInvalidAnswer,
  withAnswerDelivered,
  withNothingAsked,
  withQuestion,
  withRecordedAnswer,
} from './decide.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import { resumeRequestedAnnotation, sandboxes } from '../../../resources/sandbox.ts';
import { viewOfSandbox } from '../../../status/sandbox-phase.ts';
import { storedObject } from '../../stored-object.ts';

export interface ApprovalsOptions extends RecordingNeeds {
  readonly agent: Pick<AgentClient, 'question' | 'answer' | 'hadApproval'>;
}

interface Followed {
  readonly status: ConversationStatus;
  /** Milliseconds until the next attempt. */
  readonly againAfterMs?: number;
}

interface Answered {
  readonly status: ConversationStatus;
  readonly questionId: string;
  readonly answer: RecordedAnswer;
}

/** Maximum time of the call that sends an answer. */
const timeoutMs = 5_000;
/** Time after which a call that sent an answer can not reach the agent any more. */
const settleMs = 20_000;
const againAfterMs = 500;
/** Maximum conversations whose last question is in memory. */
const maxRead = 20_000;

/**
 * Handles the questions of agents and the answers of people (`decide.ts` has the decisions):
 *
 * 1. `follow` stores the question of an agent that waits for a confirmation in the status.
 * 2. The gateway stores the answer of a person in `spec.approvals`.
 * 3. The next reconcile calls `record`, which stores in the status what the answer means, and
 *    resumes a paused sandbox for the answer.
 * 4. Once a poll shows that the agent asks, `follow` sends the answer and closes the question.
 *
 * An answer is stored before the agent gets it, with the resourceVersion that was read, so that
 * only one of two operators sends it. An agent that still asks after a call without a response gets
 * the same answer again. An agent that does not ask any more has received the answer, unless it has
 * rejected the tool calls in question.
 */
export class Approvals {
  readonly #options: ApprovalsOptions;
  /** State of the agent when its question was last read, by conversation. */
  readonly #read = recentlyUsed<string>(maxRead);
  readonly #sent: ElapsedTimes;

  constructor(options: ApprovalsOptions) {
    this.#options = options;
    this.#sent = new ElapsedTimes(options);
  }

  /** Stores a person's answer in the status, before any step that depends on the answer. */
  async record(scope: Scope): Promise<void> {
    const { spec, metadata } = scope.stored;
    const isNew = scope.status.observedGeneration !== metadata.generation;
    if (isNew && hasInvalidAnswer({ spec, status: scope.status }))
      this.#options.events.record(scope.stored, {
        type: 'Warning',
        reason: 'ApprovalAnswerRefused',
        message: `The answer to the question ${scope.status.approval?.id ?? ''} names no option of the question, or approves calls that can't be read whole. Remove it from spec.approvals and answer again.`,
      });
    scope.status = withRecordedAnswer(scope.status, spec);
    scope.status = await resumeForAnswer(this.#options, scope);
  }

  /**
   * Stores the question, or sends the answer. Returns the milliseconds until the next attempt.
   * Throws `AgentError` when the agent could not be asked, or has certainly not received the
   * answer.
   */
  async follow(scope: Scope, run: PolledRun): Promise<number | undefined> {
    const { status, againAfterMs: afterMs } = await this.#followed(scope, run);
    scope.status = status;
    return afterMs;
  }

  async #followed(scope: Scope, run: PolledRun): Promise<Followed> {
    const { status: before, stored, signal } = scope;
    const now = isoTime(this.#options.clock);
    if (run.state.executionStatus !== 'waiting_for_confirmation') {
      const known = await this.#withoutLostApproval(run, before, signal);
      return { status: withNothingAsked(known, agentEpochOf(run), now) };
    }
    const asked = await this.#asked(run, before, signal);
    // The report of the agent was outdated. The next report decides.
    if (asked === undefined) return { status: before, againAfterMs };
    const isOpen = asked.id === before.approval?.id;
    const known = isOpen ? before : await this.#withoutLostApproval(run, before, signal);
    const status = withQuestion(known, asked, now);
    const { id: questionId, answer } = status.approval ?? {};
    if (questionId !== undefined && answer !== undefined)
      return this.#give(scope, run, { status, questionId, answer });
    // `spec.approvals` may already answer this question. The next reconcile records that answer.
    return answerTo(asked, stored) === undefined ? { status } : { status, againAfterMs };
  }

  /**
   * The status when the agent does not ask its question any more. If the agent rejected the tool
   * calls before it received the approval, for example because of a pause, the approval counts as
   * not sent.
   */
  async #withoutLostApproval(
    { endpoint, id }: PolledRun,
    status: ConversationStatus,
    signal: AbortSignal,
  ): Promise<ConversationStatus> {
    const { id: questionId, answer } = status.approval ?? {};
    if (questionId === undefined || answer?.sentTime === undefined || !answer.accept) return status;
    const { accept, option } = answer;
    const given = { questionId, accept, option };
    if (await this.#options.agent.hadApproval(endpoint, id, given, { signal })) return status;
    const { sentTime: _sent, ...lost } = answer;
    return withAnswer(status, lost);
  }

  /** The question of the agent, which is read once for each `updatedAt` of the conversation. */
  async #asked(
    run: PolledRun,
    { approval: known }: ConversationStatus,
    signal: AbortSignal,
  ): Promise<Approval | undefined> {
    const { agent, clock } = this.#options;
    const { endpoint, id, state, sandbox, secrets } = run;
    const key = runKey(run);
    const agentEpoch = agentEpochOf(run);
    const version = `${agentEpoch} ${state.updatedAt ?? ''} ${known?.id ?? ''}`;
    if (known !== undefined && this.#read.get(key) === version) return known;
    const question = await agent.question(endpoint, id, { signal });
    if (question === undefined) return undefined;
    const isKnown = question.id === known?.id;
    if (isKnown && question.callHash !== known.callHash)
      throw new AgentError('malformed', 'The agent has changed the calls of its question.');
    this.#read.set(key, `${agentEpoch} ${state.updatedAt ?? ''} ${question.id}`);
    if (isKnown) return known;
    const { id: questionId, kind, callHash } = question;
    return {
      id: questionId,
      kind,
      callHash,
      ...questionTextOf(question, hidableSecrets(await secrets())),
      requestedTime: isoTime(clock),
      agentEpoch,
      ...(keepsQuestions(sandbox.status ?? {}, state) ? { kept: true } : {}),
    };
  }

  async #give(
    { save, signal }: Scope,
    run: PolledRun,
    { status, questionId, answer }: Answered,
  ): Promise<Followed> {
    const { agent, clock, logger } = this.#options;
    const { endpoint, id } = run;
    const key = runKey(run);
    const { sentTime, accept, option, reason } = answer;
    // A call with this answer from another process may still reach the agent.
    if (sentTime !== undefined && this.#sent.lastsMs(key, sentTime) < settleMs)
      return { status, againAfterMs };
    const sent = { ...answer, sentTime: isoTime(clock) };
    const began = clock.monotonic();
    const marked = await save(withAnswer(status, sent));
    if (clock.monotonic() - began > timeoutMs || signal.aborted)
      return { status: marked, againAfterMs };
    this.#sent.lastsMs(key, sent.sentTime);
    const timeout = abortedAfter(clock, timeoutMs, signal);
    try {
      await agent.answer(
        endpoint,
        id,
        { questionId, accept, option, reason },
        { signal: timeout.signal },
      );
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      logger.debug('answer not confirmed', { conversation: id, code: error.code });
      if (error.outcomeUnknown) return { status: marked, againAfterMs };
      return { status: withAnswer(marked, answer), againAfterMs };
    } finally {
      timeout.cancel();
    }
    this.#read.delete(key);
    return { status: withAnswerDelivered(marked, isoTime(clock)), againAfterMs };
  }
}

const agentEpochOf = ({ sandbox }: PolledRun): number => sandbox.status?.agentEpoch ?? 0;

/** The status with this answer to its open question; unchanged if no question is open. */
const withAnswer = (status: ConversationStatus, answer: RecordedAnswer): ConversationStatus =>
  status.approval === undefined ? status : { ...status, approval: { ...status.approval, answer } };

/**
 * Requests a resume of a paused sandbox whose agent lacks the answer. Each answer requests one
 * resume only, because a person may pause the sandbox again. If the process ends before it stores
 * the returned status, another process requests the resume again.
 */
async function resumeForAnswer(
  { client, clock }: { readonly client: KubeClient; readonly clock: Clock },
  { status, sandbox, stored: conversation, signal }: Scope,
): Promise<ConversationStatus> {
  const { approval } = status;
  const { owner } = conversation.spec;
  if (
    sandbox === undefined ||
    approval?.answer === undefined ||
    approval.answer.resumeTime !== undefined ||
    !hasAnswerToGive({ spec: {}, status }) ||
    viewOfSandbox(sandbox).phase !== 'PAUSED'
  )
    return status;
  const stored = await storedObject({ client, signal }, sandboxes, sandbox);
  // A sandbox that moves to another owner, or has moved, resumes for no answer of the old owner.
  if (stored === undefined || stored.spec.handover !== undefined) return status;
  if (stored.spec.owner !== owner) return status;
  const resumeTime = isoTime(clock);
  const { namespace, name } = stored.metadata;
  try {
    const { resourceVersion } = stored.metadata;
    const annotations = { [resumeRequestedAnnotation]: resumeTime };
    const patch = { metadata: { resourceVersion, annotations }, spec: { replicas: 1 as const } };
    await client.mergePatch(sandboxes, namespace, name, patch, { signal });
  } catch (error) {
    // A changed sandbox causes another reconcile, and a deleted one needs no resume.
    if (isConflict(error) || isNotFound(error)) return status;
    throw error;
  }
  return { ...status, approval: { ...approval, answer: { ...approval.answer, resumeTime } } };
}
