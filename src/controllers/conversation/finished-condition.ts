import { findCondition, setCondition, type Condition } from '../../resources/conditions.ts';
import type { FinishedReason } from '../../resources/conversation.ts';
import {
  ConversationCondition,
  finishedReasonOf,
  type ConversationMessages,
  type ConversationStatus,
} from '../../resources/conversation.ts';

const messages: Readonly<Record<FinishedReason, string>> = {
  Finished: 'The agent has completed its run.',
  Error: 'The run has ended in an error.',
  Stuck: 'The agent can not proceed.',
  StartFailed: 'The start has failed.',
  SandboxGone: 'The sandbox does not exist any more.',
};

/**
 * The status with its condition Finished, whose transition time is when the operator saw the conversation come to its end. Before its
 * first end a conversation has no such condition.
 */
export function withFinishedCondition(
  spec: ConversationMessages['spec'],
  status: ConversationStatus,
  generation: number,
  now: string,
): ConversationStatus {
  const { conditions } = status;
  const reason = finishedReasonOf({ spec, status });
  if (reason === undefined && findCondition(conditions, ConversationCondition.finished) === undefined) return status;
  const condition: Omit<Condition, 'lastTransitionTime'> =
    reason === undefined
      ? { type: ConversationCondition.finished, status: 'False', reason: 'Active', message: 'The conversation is active.' }
      : { type: ConversationCondition.finished, status: 'True', reason, message: messages[reason] };
  const next = setCondition(conditions, { ...condition, observedGeneration: generation }, now);
  return next === conditions ? status : { ...status, conditions: [...next] };
}
