import type { EventDetails } from '@conversation-operator/kube/events';
import type { ConversationStatus } from '../../../resources/conversation.ts';
import { Interruption, wordsOf } from './run-resume.ts';

/** What is to be told of a conversation's run, given its status before and after a write. */
export function noticeOfRun(before: ConversationStatus | undefined, after: ConversationStatus): EventDetails | undefined {
  const { interruption: was } = before ?? {};
  const { interruption: is } = after;
  if (is?.abandonedReason !== undefined) {
    if (was?.abandonedReason === is.abandonedReason && was.time === is.time) return undefined;
    return { type: 'Warning', reason: 'RunGivenUp', message: after.executionDetail ?? wordsOf(is) };
  }
  if (is?.lastResumeTime !== undefined) {
    if (was === undefined || was.lastResumeTime === is.lastResumeTime) return undefined;
    return { type: 'Normal', reason: 'RunContinued', message: `The run that was interrupted (${is.reason}) goes on.` };
  }
  if (is === undefined || (was !== undefined && was.lastResumeTime === undefined && was.reason === is.reason)) return undefined;
  return {
    type: is.reason === Interruption.loss || is.reason === Interruption.disruption ? 'Warning' : 'Normal',
    reason: 'RunInterrupted',
    message: wordsOf(is),
  };
}
