import type { AgentError, AgentErrorCode } from '../../../agent/errors.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { Interruption, type InterruptedRun } from './interruption.ts';
import type { EventDetails } from '@conversation-operator/kube/events';

/**
 * Maximum consecutive resumes after lost containers. One more loss puts the run in error, and
 * another loss after that makes the sandbox fail (`crashLoopRestarts`). A tool that takes all
 * memory ends the container at each call, and each call costs money. For this reason events of the
 * agent do not reset the count, but `healthyRunMs` does.
 */
export const maxContainerLosses = 2;
/** Time after which a run resets its container losses, as in the kubelet's restart back-off. */
export const healthyRunMs = 10 * 60_000;
/** Maximum rejected resumes of a run. The operator abandons the run after about two minutes. */
export const maxResumeRejections = 8;

/** Maximum delay between two resumes. */
const maxRetryMs = 30_000;

/** Returns the interruption of a run that was just interrupted for this reason. */
export function nextInterruption(
  before: InterruptedRun | undefined,
  reason: string,
  now: string,
): InterruptedRun {
  const ranMs =
    before?.lastResumeTime === undefined ? 0 : Date.parse(now) - Date.parse(before.lastResumeTime);
  const losses = ranMs >= healthyRunMs ? 0 : (before?.containerLosses ?? 0);
  const counted = reason === Interruption.loss ? losses + 1 : losses;
  // A pause by the owner resets the count: the owner has seen the run and decides how to proceed.
  return {
    reason,
    time: now,
    ...(counted === 0 || reason === Interruption.user ? {} : { containerLosses: counted }),
  };
}

/** The reason why the operator does not resume the run; undefined while it does. */
export function abandonedReasonOf({
  reason,
  containerLosses = 0,
  resumeRejections = 0,
  abandonedReason,
}: InterruptedRun): InterruptedRun['abandonedReason'] {
  if (abandonedReason !== undefined) return abandonedReason;
  if (resumeRejections >= maxResumeRejections) return 'Refused';
  return reason === Interruption.loss && containerLosses > maxContainerLosses
    ? 'LostTooOften'
    : undefined;
}

/** Counts a resume. The caller stores the count before it sends the request. */
export const withResumeAttempt = (status: ConversationStatus): ConversationStatus => ({
  ...status,
  ...(status.interruption === undefined
    ? {}
    : {
        interruption: {
          ...status.interruption,
          resumeAttempts: (status.interruption.resumeAttempts ?? 0) + 1,
        },
      }),
});

/** Errors of an agent that answers, and is neither busy nor starting. */
const rejections: ReadonlySet<AgentErrorCode> = new Set([
  'refused',
  'failed',
  'not-found',
  'malformed',
]);

/**
 * Counts a failed resume. `isRequested` is false if a call before the request to run failed. A
 * rejection counts towards `maxResumeRejections`. A resume that the agent has certainly not
 * executed counts in `resumesNotExecuted`: it has not caused the next loss of the container.
 */
export function withResumeFailed(
  status: ConversationStatus,
  { error, isRequested }: { readonly error: AgentError; readonly isRequested: boolean },
): ConversationStatus {
  const { interruption } = status;
  if (interruption === undefined) return status;
  const { resumeRejections = 0, resumesNotExecuted = 0 } = interruption;
  if (rejections.has(error.code))
    return { ...status, interruption: { ...interruption, resumeRejections: resumeRejections + 1 } };
  if (isRequested && error.outcomeUnknown) return status;
  return {
    ...status,
    interruption: { ...interruption, resumesNotExecuted: resumesNotExecuted + 1 },
  };
}

export const retryAfterMs = ({ resumeAttempts = 1 }: InterruptedRun): number =>
  Math.min(maxRetryMs, 1_000 * 2 ** (resumeAttempts - 1));

/** Marks the run as resumed. `containerLosses` stays until the run lasts `healthyRunMs` or ends. */
export function withRunResumed(
  { executionDetail: _past, ...status }: ConversationStatus,
  now: string,
): ConversationStatus {
  const { interruption } = status;
  return {
    ...status,
    executionStatus: 'running',
    ...(interruption === undefined ? {} : { interruption: resumed(interruption, now) }),
  };
}

/** Marks the run as resumed on request of a person, which resets `containerLosses`. */
export function withRunRequested(status: ConversationStatus, now: string): ConversationStatus {
  const { containerLosses: _losses, ...interruption } = status.interruption ?? {};
  return withRunResumed('reason' in interruption ? { ...status, interruption } : status, now);
}

export const resumed = (
  { reason, time, containerLosses }: InterruptedRun,
  now: string,
): InterruptedRun => ({
  reason,
  time,
  ...(containerLosses === undefined ? {} : { containerLosses }),
  lastResumeTime: now,
});

/** Marks the run as stuck, because its agent has reported nothing for too long. */
export const withRunStuck = (
  status: ConversationStatus,
  now: string,
  allowed: string,
): ConversationStatus => ({
  ...status,
  executionStatus: 'stuck',
  executionDetail: `The operator interrupted the run: the agent ran, and reported nothing for ${allowed} (agent.stuckAfter of the template). A message resumes the run.`,
  interruption: { reason: Interruption.stalled, time: now, abandonedReason: 'Stalled' },
});

/** Explains an interruption to people: its cause, and what resumes the run. */
export function messageOf(interruption: InterruptedRun): string {
  const { reason, containerLosses = 0, resumeRejections = 0 } = interruption;
  switch (abandonedReasonOf(interruption)) {
    case 'LostTooOften':
      return `The run is abandoned: the container of the agent was lost ${containerLosses} times in a row, each time soon after a resume of the run. A message resumes the run.`;
    case 'Refused':
      return `The run is abandoned: the agent rejected ${resumeRejections} resumes of the interrupted run. A message resumes the run.`;
    case 'Stalled':
      return 'The operator interrupted the run: the agent ran, and reported nothing for too long. A message resumes the run.';
    case undefined:
      break;
  }
  switch (reason) {
    case Interruption.user:
      return 'A pause by the owner interrupted the run. The run resumes with a message or on request.';
    case Interruption.loss:
      return 'The loss of the container interrupted the run. The run resumes by itself when the agent is back.';
    case Interruption.disruption:
      return 'The loss of the pod interrupted the run: a drained, lost or full node, or a deletion. The run resumes by itself when the agent is back.';
    case Interruption.budget:
      return 'The budget for models is used up, which has stopped the run. The run resumes where it was once the budget is raised or starts again.';
    default:
      return `A pause of the sandbox (${reason}) interrupted the run. The run resumes by itself when the sandbox is back.`;
  }
}

/** Returns the Event for a change of the run between two writes of the status. */
export function eventOfRun(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): EventDetails | undefined {
  const { interruption: was } = before ?? {};
  const { interruption: is } = after;
  if (is === undefined) return undefined;
  if (is.abandonedReason !== undefined) {
    if (was?.abandonedReason === is.abandonedReason && was.time === is.time) return undefined;
    return {
      type: 'Warning',
      reason: 'RunGivenUp',
      message: after.executionDetail ?? messageOf(is),
    };
  }
  if (is.lastResumeTime !== undefined) {
    if (was === undefined || was.lastResumeTime === is.lastResumeTime) return undefined;
    return {
      type: 'Normal',
      reason: 'RunContinued',
      message: `The interrupted run (${is.reason}) has resumed.`,
    };
  }
  if (was !== undefined && was.lastResumeTime === undefined) {
    if (was.reason === is.reason) return undefined;
    // The person has answered the question about the budget, whose own Event says so.
    if (was.reason === Interruption.budget && is.reason === Interruption.user) return undefined;
  }
  return {
    type:
      is.reason === Interruption.loss || is.reason === Interruption.disruption
        ? 'Warning'
        : 'Normal',
    reason: 'RunInterrupted',
    message: messageOf(is),
  };
}
