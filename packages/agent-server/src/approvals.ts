import type { Draft } from './event-log.ts';
import { stateEvent, type ApprovalAnswer, type ApprovalRequest } from './events.ts';
import { HttpError } from './router.ts';

export interface Decision {
  readonly accept: boolean;
  readonly reason: string;
  /** Id of the approval request that the person has seen; default: the one that waits. */
  readonly approvalId?: string | undefined;
  /** Default: the option that applies to this call only. */
  readonly optionId?: string | undefined;
}

export interface Answered {
  readonly answer: ApprovalAnswer;
  readonly options: ApprovalRequest['options'];
}

export const isAllowing = (kind: string): boolean => kind.startsWith('allow');

/** Returns the event of a decision. Throws HttpError 422 if the request lacks the option. */
export function answerDraft({ id, options }: ApprovalRequest, decision: Decision): Draft {
  const { accept, reason } = decision;
  const value = { id, option_id: optionOf(options, decision), reason: accept ? null : reason };
  return { event: stateEvent({ key: 'approval_answer', value }) };
}

/** Returns the event of an approval request that the agent itself has withdrawn. */
export const withdrawal = (id: string): Draft => ({
  event: stateEvent({ key: 'approval_withdrawn', value: id }),
});

/** Throws HttpError 409 unless the decision repeats the answer that the request already has. */
export function assertSameAnswer(
  approvalId: string,
  answered: Answered | undefined,
  { accept, optionId }: Decision,
): void {
  if (answered === undefined)
    throw new HttpError(409, `The question ${approvalId} does not wait for an answer.`);
  const { option_id: given } = answered.answer;
  const kind = answered.options.find(({ option_id }) => option_id === given)?.kind;
  const isSame = optionId === undefined || optionId === given;
  if (isSame && accept === (kind !== undefined && isAllowing(kind))) return;
  throw new HttpError(409, `The question ${approvalId} has another answer already.`);
}

/** Returns the option of a decision, or null to cancel the request if no option rejects it. */
function optionOf(
  options: ApprovalRequest['options'],
  { accept, optionId }: Decision,
): string | null {
  const wanted = accept ? 'allow_once' : 'reject_once';
  const option = options.find(({ option_id, kind }) =>
    optionId === undefined ? kind === wanted : option_id === optionId,
  );
  const names = (found: ApprovalRequest['options']) =>
    found.map(({ option_id, kind }) => `${option_id} (${kind})`).join(', ') || 'none';
  if (option === undefined && optionId !== undefined)
    throw invalid(`The question has no such option. Its options: ${names(options)}`);
  if (option === undefined && accept) {
    const allowing = options.filter(({ kind }) => isAllowing(kind));
    throw invalid(
      `The question has no option that allows this call alone. Options that allow it: ${names(allowing)}`,
    );
  }
  if (option !== undefined && isAllowing(option.kind) !== accept)
    throw invalid(`The option is of the kind ${option.kind}, which accept contradicts`);
  return option?.option_id ?? null;
}

const invalid = (msg: string): HttpError =>
  new HttpError(422, [{ type: 'value_error', loc: ['body', 'option_id'], msg }]);
