import type { EventDetails } from '@conversation-operator/kube/events';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { Interruption } from './interruption.ts';
import { messageOf } from './run-resume.ts';

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
  if (was !== undefined && was.lastResumeTime === undefined && was.reason === is.reason)
    return undefined;
  return {
    type:
      is.reason === Interruption.loss || is.reason === Interruption.disruption
        ? 'Warning'
        : 'Normal',
    reason: 'RunInterrupted',
    message: messageOf(is),
  };
}
