import { plainText } from '../../../resources/plain-text.ts';
import {
  maxWorkingDirLength,
  type ConversationStatus,
  type StartStatus,
} from '../../../resources/conversation-status.ts';
import type { StartFailure } from './stage.ts';
import type { EventDetails } from '@conversation-operator/kube/events';
import { isStartOver, startStatusOf } from '../../../resources/conversation.ts';

/** Maximum length of an error, in characters. */
const maxErrorLength = 2048;

/**
 * Records the folder of the conversation. The sandbox has reported the path, and a path that can
 * not be stored unchanged counts as unknown.
 */
export function withWorkingDir(status: ConversationStatus, path: string): ConversationStatus {
  const isStorable = path.startsWith('/') && plainText(path, maxWorkingDirLength) === path;
  return isStorable ? { ...status, workingDir: path } : status;
}

type Transition = NonNullable<ConversationStatus['start']>['transitions'][number];

/** Adds a status to the start. READY and ERROR are final. */
export function withTransition(status: ConversationStatus, next: Transition): ConversationStatus {
  const { transitions = [], steps } = status.start ?? {};
  const kept = steps === undefined ? {} : { steps };
  const start = { ...kept, status: next.status, transitions: [...transitions, next] };
  return { ...status, start };
}

export function withFailure(
  status: ConversationStatus,
  failure: StartFailure,
  time: string,
): ConversationStatus {
  const error = plainText(failure.message, maxErrorLength);
  return withDelay(withTransition(status, { status: 'ERROR', time, detail: error }), {
    code: failure.code,
    message: error,
  });
}

export function withDeadline(
  status: ConversationStatus,
  deadline: string | undefined,
): ConversationStatus {
  if (status.start === undefined || status.start.deadline === deadline) return status;
  const { deadline: _, ...start } = status.start;
  return { ...status, start: deadline === undefined ? start : { ...start, deadline } };
}

/** Records the cause of a delay, or removes it (undefined). A transition also removes the cause. */
export function withDelay(
  status: ConversationStatus,
  cause: { readonly code: string; readonly message: string } | undefined,
): ConversationStatus {
  if (
    status.start === undefined ||
    (status.start.errorCode === cause?.code && status.start.error === cause?.message)
  )
    return status;
  const { errorCode: _code, error: _error, ...start } = status.start;
  return {
    ...status,
    start: cause === undefined ? start : { ...start, errorCode: cause.code, error: cause.message },
  };
}

const minRetryMs = 1_000;
const maxRetryMs = 20_000;

/**
 * Delay before the next call to an agent that has failed: as long as the failed call occupied a
 * worker, because starts of other sandboxes need the workers too.
 */
export const agentRetryMs = (heldMs: number): number =>
  Math.min(maxRetryMs, Math.max(minRetryMs, heldMs));

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

/** The stages that the start has completed between two status writes, except failed ones. */
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
