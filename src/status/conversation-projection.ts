import { answerTo, forgottenNotice, isBudgetQuestion, isForgotten } from '../resources/approval.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import {
  conditionUpdate,
  findCondition,
  setConditions,
  type ConditionUpdate,
  pausedCondition,
} from '../resources/conditions.ts';
import {
  ConversationCondition,
  finishedReasonOf,
  isStartHeld,
  isStartOver,
  startStatusOf,
  type ConversationMessages,
  type FinishedReason,
} from '../resources/conversation.ts';
import {
  maxShortTitleLength,
  type ConversationStatus,
  type SandboxStatus,
} from '../resources/conversation-status.ts';
import { firstWords } from '../resources/plain-text.ts';
import { resultDetailOf } from '../resources/run-result.ts';

export const ReadyReason = {
  sandboxRunning: 'SandboxRunning',
  starting: 'Starting',
  startFailed: 'StartFailed',
  sandboxStarting: 'SandboxStarting',
  sandboxPaused: 'SandboxPaused',
  sandboxError: 'SandboxError',
  sandboxMissing: 'SandboxMissing',
} as const;

/** Reason of the condition Finished if the condition is False. */
export const activeReason = 'Active';

const sandboxReasons: Readonly<Record<SandboxStatus, string>> = {
  STARTING: ReadyReason.sandboxStarting,
  RUNNING: ReadyReason.sandboxRunning,
  PAUSED: ReadyReason.sandboxPaused,
  ERROR: ReadyReason.sandboxError,
  MISSING: ReadyReason.sandboxMissing,
};

const finishedMessages: Readonly<Record<FinishedReason, string>> = {
  Finished: 'The agent has completed its run.',
  Error: 'The run has ended in an error.',
  Stuck: 'The agent can not proceed.',
  StartFailed: 'The start has failed.',
  SandboxGone: 'The sandbox does not exist any more.',
};

/** The condition Ready: the start is READY and the sandbox runs, so the agent accepts messages. */
export function readyCondition(status: ConversationStatus): ConditionUpdate {
  const { sandboxStatus = 'STARTING', sandboxStatusReason = 'Starting' } = status;
  const start = startStatusOf({ status });
  const update = (isTrue: boolean, reason: string, message: string) =>
    conditionUpdate(ConversationCondition.ready, isTrue, reason, message);
  if (start === 'ERROR')
    return update(
      false,
      ReadyReason.startFailed,
      `The start has failed: ${status.start?.errorCode ?? 'StartFailed'}.`,
    );
  if (!isStartOver(start) && (sandboxStatus === 'STARTING' || sandboxStatus === 'RUNNING'))
    return update(
      false,
      ReadyReason.starting,
      isStartHeld({ status })
        ? (status.start?.error ?? '')
        : `The status of the start is ${start}.`,
    );
  return sandboxStatus === 'RUNNING'
    ? update(true, sandboxReasons[sandboxStatus], 'The start is READY and the sandbox is RUNNING.')
    : update(
        false,
        sandboxReasons[sandboxStatus],
        `The sandbox is ${sandboxStatus}: ${sandboxStatusReason}.`,
      );
}

/** The condition Finished, whose transition time is when the operator saw the end. */
export function finishedCondition(conversation: ConversationMessages): ConditionUpdate {
  const reason = finishedReasonOf(conversation);
  const detail =
    reason === 'Finished' ? resultDetailOf(conversation.status?.lastResult ?? {}) : undefined;
  const message =
    reason === undefined
      ? 'The conversation is active.'
      : detail === undefined
        ? finishedMessages[reason]
        : `The run is over. ${detail}`;
  return conditionUpdate(
    ConversationCondition.finished,
    reason !== undefined,
    reason ?? activeReason,
    message,
  );
}

export const WaitingForApprovalReason = {
  toolCall: 'ToolCall',
  budget: 'Budget',
  answered: 'Answered',
  nothingAsked: 'NothingAsked',
  answerLost: 'AnswerLost',
} as const;

/** The condition WaitingForApproval; undefined if the agent has never asked. */
function waitingForApprovalCondition({
  spec,
  status = {},
}: Pick<CachedConversation, 'spec' | 'status'>): ConditionUpdate | undefined {
  const { approval, conditions, closedApprovals, lostAnswer, sandboxStatus = 'STARTING' } = status;
  const type = ConversationCondition.waitingForApproval;
  const { toolCall, budget, answered, answerLost } = WaitingForApprovalReason;
  if (approval !== undefined) {
    const forgotten = isForgotten(status, sandboxStatus);
    const isBudget = isBudgetQuestion(approval);
    const message = isBudget ? approval.summary : `The agent asks: ${approval.title}`;
    if (answerTo(approval, { spec }) === undefined)
      return conditionUpdate(
        ...([type, true, isBudget ? budget : toolCall] as const),
        forgotten ? `${message}. ${forgottenNotice}` : message,
      );
    return conditionUpdate(
      ...([type, false, answered] as const),
      forgotten
        ? `The answer is stored. ${forgottenNotice}`
        : isBudget
          ? 'The answer is stored.'
          : 'The answer is stored, and the agent gets it as soon as it runs.',
    );
  }
  const lost = closedApprovals?.find(({ id }) => id === lostAnswer);
  if (lost?.message !== undefined) return conditionUpdate(type, false, answerLost, lost.message);
  return findCondition(conditions, type) === undefined
    ? undefined
    : conditionUpdate(
        type,
        false,
        WaitingForApprovalReason.nothingAsked,
        'The agent waits for no answer.',
      );
}

/**
 * The status with the conditions and the short title, which follow from other fields and from the
 * spec. They only change together with other fields, so they cause no write of their own.
 */
export function withProjection(
  { spec, firstWords: beginning }: Pick<CachedConversation, 'spec' | 'firstWords'>,
  status: ConversationStatus,
  generation: number,
  now: string,
): ConversationStatus {
  const { sandboxStatus = 'STARTING', sandboxStatusReason = '' } = status;
  const waiting = waitingForApprovalCondition({ spec, status });
  const updates = [
    readyCondition(status),
    finishedCondition({ spec, status }),
    pausedCondition(sandboxStatus === 'PAUSED', sandboxStatusReason),
    ...(waiting === undefined ? [] : [waiting]),
  ];
  return {
    ...status,
    shortTitle: firstWords(
      [spec.title, status.title, beginning].find(Boolean) ?? '',
      maxShortTitleLength,
    ),
    conditions: setConditions(status.conditions, updates, generation, now),
  };
}

/**
 * Whether a stored conversation is over and lacks the condition Finished, with which its retention
 * time begins. Other fields that `withProjection` adds wait for the next write, so that an upgrade
 * does not write every stored conversation at once.
 */
export const lacksFinishedCondition = (conversation: ConversationMessages): boolean =>
  findCondition(conversation.status?.conditions, ConversationCondition.finished) === undefined &&
  finishedReasonOf(conversation) !== undefined;
