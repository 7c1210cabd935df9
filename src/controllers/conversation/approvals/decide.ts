import {
  answerTo,
  meaningOf,
  withClosed,
  type Approval,
  type Asking,
  type ClosedApproval,
} from '../../../resources/approval.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import type { EventDetails } from '@conversation-operator/kube/events';

/** Pure decisions about the question of an agent and its answer. */

/** Statuses of a run in which a question that was interrupted may be asked again. */
const mayAskAgain: ReadonlySet<unknown> = new Set(['running', 'paused']);

/** Reasons why an answer had no effect. */
const reasons = {
  another: 'the agent asks for another call instead',
  message: 'a message of the user came before the agent had the answer',
  stopped: 'the agent was stopped before it had the answer, and has not asked for this call again',
  withdrawn: 'the agent no longer asked when the answer was to be given',
} as const;

/** The status with the first valid answer to the question recorded; no later one replaces it. */
export function withRecordedAnswer(
  status: ConversationStatus,
  spec: Asking['spec'],
): ConversationStatus {
  const { approval } = status;
  if (approval === undefined || approval.answer !== undefined) return status;
  const answer = answerTo(approval, { spec });
  return answer === undefined ? status : { ...status, approval: { ...approval, answer } };
}

export function hasInvalidAnswer({ spec, status }: Asking): boolean {
  const { approval } = status ?? {};
  if (approval === undefined || approval.answer !== undefined) return false;
  const given = spec.approvals?.find(({ id }) => id === approval.id);
  return given !== undefined && meaningOf(approval, given) === undefined;
}

function withQuestionClosed(
  { approval: _approval, ...status }: ConversationStatus,
  closed: ClosedApproval,
): ConversationStatus {
  return { ...status, closedApprovals: withClosed(status.closedApprovals, closed) };
}

/**
 * The status without the question, which its agent no longer asks. An answer that the agent never
 * received is lost, and the status says why, because a person has to learn that.
 */
export function withQuestionWithdrawn(
  status: ConversationStatus,
  now: string,
  why: string,
): ConversationStatus {
  const { approval } = status;
  if (approval === undefined) return status;
  const { id, title, answer } = approval;
  const closed = { id, outcome: 'Withdrawn', time: now } as const;
  if (answer === undefined) return withQuestionClosed(status, closed);
  const message = `The answer “${decisionOf(answer.accept)}” to “${title}” had no effect: ${why}.`;
  return { ...withQuestionClosed(status, { ...closed, message }), lostAnswer: id };
}

/** A lost answer requires a person to act until a run begins. */
export function withRunBegun(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): ConversationStatus {
  const hasBegun = before?.executionStatus !== 'running' && after.executionStatus === 'running';
  if (!hasBegun || after.lostAnswer === undefined || before?.lostAnswer !== after.lostAnswer)
    return after;
  const { lostAnswer: _seen, ...status } = after;
  return status;
}

export function withAnswerDelivered(status: ConversationStatus, now: string): ConversationStatus {
  const { approval } = status;
  if (approval === undefined) return status;
  const { id, answer } = approval;
  return withQuestionClosed(status, {
    id,
    outcome: answer?.accept === true ? 'Approved' : 'Rejected',
    ...(answer?.option === undefined ? {} : { option: answer.option }),
    time: now,
  });
}

/**
 * The status of a conversation whose agent asks this question. An answer to a question that the
 * agent lost in a stop applies when the agent requests the same call again, and has no effect for
 * another call.
 */
export function withQuestion(status: ConversationStatus, asked: Approval, now: string) {
  const { approval: known } = status;
  if (known?.id === asked.id) return status;
  if (known === undefined) return { ...status, approval: asked };
  const { answer } = known;
  // The agent has the answer, and asks the next question.
  if (answer?.sentTime !== undefined)
    return { ...withAnswerDelivered(status, now), approval: asked };
  const isSameCall = known.agentEpoch !== asked.agentEpoch && known.callHash === asked.callHash;
  const option =
    answer === undefined || !isSameCall
      ? undefined
      : meaningOf(asked, { ...answer, option: undefined, decision: decisionOf(answer.accept) });
  if (option === undefined)
    return { ...withQuestionWithdrawn(status, now, reasons.another), approval: asked };
  const message = 'The agent has asked for the same call again, and gets this answer.';
  const closed = { id: known.id, outcome: 'Withdrawn', time: now, message } as const;
  return { ...withQuestionClosed(status, closed), approval: { ...asked, answer: option } };
}

/**
 * The status after a message of the user, which cancels an answer that the agent has not received:
 * by then, the agent may ask about the same call for another reason.
 */
export const withoutEarlierAnswer = (
  status: ConversationStatus,
  now: string,
): ConversationStatus =>
  status.approval?.answer !== undefined && status.approval.answer.sentTime === undefined
    ? withQuestionWithdrawn(status, now, reasons.message)
    : status;

const decisionOf = (accept: boolean) => (accept ? 'approve' : 'reject');

/**
 * The status of a conversation whose agent has reported, in this epoch, that it waits for no
 * answer. A question that was interrupted stays as long as the run may ask it again.
 */
export function withNothingAsked(
  status: ConversationStatus,
  agentEpoch: number,
  now: string,
): ConversationStatus {
  const { approval, interruption, executionStatus } = status;
  if (approval === undefined) return status;
  if (approval.answer?.sentTime !== undefined) return withAnswerDelivered(status, now);
  const isInterrupted =
    approval.agentEpoch !== agentEpoch ||
    (interruption !== undefined && interruption.time >= approval.requestedTime);
  return isInterrupted && mayAskAgain.has(executionStatus)
    ? status
    : withQuestionWithdrawn(status, now, isInterrupted ? reasons.stopped : reasons.withdrawn);
}

/** Returns the Events for the changes of the agent's question between two writes of the status. */
export function eventsOfApproval(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): readonly EventDetails[] {
  const events: EventDetails[] = [];
  const known = new Set(before?.closedApprovals?.map(({ id }) => id));
  for (const { id, outcome, option, message } of after.closedApprovals ?? []) {
    if (known.has(id)) continue;
    events.push(
      outcome === 'Withdrawn'
        ? {
            type: after.lostAnswer === id ? 'Warning' : 'Normal',
            reason: 'ApprovalWithdrawn',
            message: message ?? `The agent no longer asks the question ${id}.`,
          }
        : {
            type: 'Normal',
            reason: 'ApprovalAnswered',
            message: `The agent has the answer to the question ${id}: ${outcome.toLowerCase()}${option === undefined ? '' : ` (${option})`}.`,
          },
    );
  }
  const { approval } = after;
  if (approval !== undefined && approval.id !== before?.approval?.id)
    events.push({
      type: 'Normal',
      reason: 'ApprovalRequested',
      message: `The agent asks: ${approval.title} (${approval.id})`,
    });
  return events;
}
