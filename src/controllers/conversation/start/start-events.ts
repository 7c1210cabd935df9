import type { EventDetails } from '@conversation-operator/kube/events';
import { isStartOver, startStatusOf } from '../../../resources/conversation.ts';
import type { ConversationStatus, StartStatus } from '../../../resources/conversation-status.ts';

/** Returns the Event for a change of the start between two writes of the status. */
export function eventOfStart(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): EventDetails | undefined {
  const status = startStatusOf({ status: after });
  const { errorCode, error } = after.start ?? {};
  if (!isStartOver(status)) {
    if (errorCode === undefined || errorCode === before?.start?.errorCode) return undefined;
    return { type: 'Warning', reason: errorCode, message: error ?? '' };
  }
  if (status === startStatusOf({ status: before })) return undefined;
  return status === 'READY'
    ? { type: 'Normal', reason: 'Ready', message: 'The agent has accepted the conversation.' }
    : {
        type: 'Warning',
        reason: errorCode ?? 'StartFailed',
        message: error ?? 'The start failed.',
      };
}

/**
 * Returns the stages that the start has completed between two writes of the status. A stage that
 * has failed is not complete.
 */
export function finishedStages(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): readonly { readonly stage: StartStatus; readonly seconds: number }[] {
  const transitions = after.start?.transitions ?? [];
  const known = before?.start?.transitions.length ?? 0;
  return transitions.flatMap(({ status, time }, index) => {
    const previous = transitions[index - 1];
    if (index < known || previous === undefined || status === 'ERROR') return [];
    return [
      {
        stage: previous.status,
        seconds: Math.max(0, Date.parse(time) - Date.parse(previous.time)) / 1000,
      },
    ];
  });
}
