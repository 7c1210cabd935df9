import { parseAmount, shownAmount } from '../../../budget/money.ts';
import {
  answerTo,
  isBudgetQuestion,
  meaningOf,
  withClosed,
  type Approval,
  type Asking,
  type ClosedApproval,
} from '../../../resources/approval.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import type { EventDetails } from '@conversation-operator/kube/events';

/** Statuses of a run in which an agent may repeat a question after an interruption. */
const mayAskAgain: ReadonlySet<unknown> = new Set(['running', 'paused']);

/** Reasons why an answer had no effect. */
const reasons = {
  another: 'the agent asks for another call instead',
  message: 'a message of the user came before the agent had the answer',
  stopped: 'the agent was stopped before it had the answer, and has not asked for this call again',
  withdrawn: 'the agent no longer asked when the answer was to be given',
} as const;

/** Records the first valid answer to the open question; a later answer does not replace it. */
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
 * Closes the open question, which its agent does not ask any more. If the agent never received the
 * answer, the status says why, because a person has to learn that.
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

/** Removes `lostAnswer`, which asks a person to act, when a run begins. */
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
 * Stores the question that the agent asks. If the agent lost an earlier question in a restart, the
 * answer to the earlier question applies if both ask about the same call, and otherwise has no
 * effect.
 */
export function withQuestion(status: ConversationStatus, asked: Approval, now: string) {
  const { approval: known } = status;
  if (known?.id === asked.id) return status;
  if (known === undefined) return { ...status, approval: asked };
  const { answer } = known;
  // The agent has received the answer, and now asks another question.
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
 * Cancels an answer that the agent has not received, because the user has sent a message. After the
 * message, the agent may ask about the same call for another reason.
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
 * Closes the question of an agent that has reported, in `agentEpoch`, that it waits for no answer.
 * After an interruption, the question stays open while the run may ask it again.
 */
export function withNothingAsked(
  status: ConversationStatus,
  agentEpoch: number,
  now: string,
): ConversationStatus {
  const { approval, interruption, executionStatus } = status;
  // The operator itself ends a question about a budget.
  if (approval === undefined || isBudgetQuestion(approval)) return status;
  if (approval.answer?.sentTime !== undefined) return withAnswerDelivered(status, now);
  const isInterrupted =
    approval.agentEpoch !== agentEpoch ||
    (interruption !== undefined && interruption.time >= approval.requestedTime);
  return isInterrupted && mayAskAgain.has(executionStatus)
    ? status
    : withQuestionWithdrawn(status, now, isInterrupted ? reasons.stopped : reasons.withdrawn);
}

/** The question as a sentence. */
const askedOf = (approval: Approval): string =>
  isBudgetQuestion(approval) ? approval.summary : `The agent asks: ${approval.title}`;

/** Returns the Events for the changes of the agent's question between two writes of the status. */
export function eventsOfApproval(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): readonly EventDetails[] {
  const events: EventDetails[] = [];
  const isOfBudget = (id: string): boolean =>
    before?.approval?.id === id && isBudgetQuestion(before.approval);
  const raiseOf = (id: string): Approval['raise'] =>
    isOfBudget(id) ? before?.approval?.raise : undefined;
  const known = new Set(before?.closedApprovals?.map(({ id }) => id));
  for (const { id, outcome, option, message } of after.closedApprovals ?? []) {
    if (known.has(id)) continue;
    const raise = outcome === 'Approved' ? raiseOf(id) : undefined;
    if (raise !== undefined)
      events.push({
        type: 'Normal',
        reason: 'BudgetRaised',
        message: `The budget was raised by ${shownAmount(parseAmount(raise.amount, raise.unit), raise.unit)}.`,
      });
    events.push(
      outcome === 'Withdrawn'
        ? {
            type: after.lostAnswer === id ? 'Warning' : 'Normal',
            reason: 'ApprovalWithdrawn',
            message:
              message ??
              (isOfBudget(id)
                ? `The question ${id} about the budget is over.`
                : `The agent no longer asks the question ${id}.`),
          }
        : {
            type: 'Normal',
            reason: 'ApprovalAnswered',
            message: `${isOfBudget(id) ? 'A person has answered the question' : 'The agent has the answer to the question'} ${id}: ${outcome.toLowerCase()}${option === undefined ? '' : ` (${option})`}.`,
          },
    );
  }
  const { approval } = after;
  if (approval !== undefined && approval.id !== before?.approval?.id)
    events.push({
      type: 'Normal',
      reason: 'ApprovalRequested',
      message: `${askedOf(approval)} (${approval.id})`,
    });
  return events;
}
