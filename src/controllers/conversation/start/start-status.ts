import { plainText } from '../../../resources/plain-text.ts';
import {
  maxWorkingDirLength,
  type ConversationStatus,
  type StartStatus,
} from '../../../resources/conversation-status.ts';
import type { StartFailure } from './start-failure.ts';

/** Pure changes of the status of a start. */

/** Maximum length of an error, in characters. */
const maxErrorLength = 2048;

/**
 * Records the folder of the conversation. The sandbox has reported the path, and one that can not
 * be stored as it is counts as unknown.
 */
export function withWorkingDir(status: ConversationStatus, path: string): ConversationStatus {
  const isStorable = path.startsWith('/') && plainText(path, maxWorkingDirLength) === path;
  return isStorable ? { ...status, workingDir: path } : status;
}

/** Adds a status to the start. READY and ERROR are final. */
export function withTransition(
  status: ConversationStatus,
  next: StartStatus,
  time: string,
  detail?: string,
): ConversationStatus {
  const { transitions = [], steps } = status.start ?? {};
  return {
    ...status,
    start: {
      ...(steps === undefined ? {} : { steps }),
      status: next,
      transitions: [
        ...transitions,
        { status: next, time, ...(detail === undefined ? {} : { detail }) },
      ],
    },
  };
}

export function withFailure(
  status: ConversationStatus,
  failure: StartFailure,
  time: string,
): ConversationStatus {
  const error = plainText(failure.message, maxErrorLength);
  return withDelay(withTransition(status, 'ERROR', time, error), {
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

/**
 * Records the cause that delays the start; undefined when the start is not delayed. A transition
 * removes the cause.
 */
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
 * Delay before the next call to an agent that has failed: as long as the failed call has held a
 * worker, because starts of other sandboxes need the workers too.
 */
export const agentRetryMs = (heldMs: number): number =>
  Math.min(maxRetryMs, Math.max(minRetryMs, heldMs));
