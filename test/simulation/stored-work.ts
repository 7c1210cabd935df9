import {
  isStartOver,
  startStatusOf,
  undeliveredMessages,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { isAnswered } from './stored-answers.ts';
import { SandboxReason } from '../../src/resources/sandbox.ts';

const isToResume = ({ status }: Conversation): boolean =>
  status?.interruption !== undefined &&
  status.interruption.reason !== SandboxReason.user &&
  status.interruption.abandonedReason === undefined;

const hasMessage = (conversation: Conversation): boolean =>
  conversation.status?.executionStatus !== 'error' &&
  (undeliveredMessages(conversation).length > 0 || isToBeAnswered(conversation));

/** Whether the answer of a person waits for the agent. */
export const isToBeAnswered = (conversation: Conversation): boolean =>
  isAnswered(conversation) && conversation.status?.approval?.answer?.sentTime === undefined;

/** Whether the stored status shows work of the agent, a wait for a person, or a run to resume. */
export function works(conversation: Conversation): boolean {
  if (startStatusOf(conversation) !== 'READY') return false;
  const { executionStatus } = conversation.status ?? {};
  if (executionStatus === 'running' || executionStatus === 'waiting_for_confirmation') return true;
  return (executionStatus === 'paused' && isToResume(conversation)) || hasMessage(conversation);
}

/** Whether the conversation has unfinished work; an agent that waits for a person has none. */
export function isUnfinished(conversation: Conversation): boolean {
  const asks =
    conversation.status?.executionStatus === 'waiting_for_confirmation' &&
    !hasMessage(conversation);
  return (
    !isStartOver(startStatusOf(conversation)) ||
    (works(conversation) && !asks) ||
    isToResume(conversation)
  );
}
