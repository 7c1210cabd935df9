import type { ApprovalAnswer } from '../../src/resources/approval.ts';
import type { Conversation } from '../../src/resources/conversation.ts';

/** Whether an answer names an option of the questions of simulated agents. */
export const isValid = ({ decision, option }: ApprovalAnswer): boolean =>
  decision !== undefined || option === 'yes' || option === 'no';

/** Whether a person has answered the question of a conversation, and the agent may not know it. */
export const isAnswered = ({ spec, status }: Conversation): boolean =>
  spec.approvals?.some((answer) => answer.id === status?.approval?.id && isValid(answer)) === true;
