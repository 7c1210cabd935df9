import type { Logger } from '@conversation-operator/base/logger';
import type { AgentClient } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { durationMs } from '../../../resources/sandbox-template.ts';
import type { SaveStatus } from '../scope.ts';
import { runKey, type PolledRun } from './run-observer.ts';
import {
  retryAfterMs,
  withResumeAttempt,
  withResumeFailed,
  withRunResumed,
  withRunStuck,
} from './run-resume.ts';
import type { StuckDetection } from './stuck-detection.ts';

export interface RunControlOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly agent: AgentClient;
  readonly stuck: StuckDetection;
}

export interface RunControlContext {
  readonly status: ConversationStatus;
  readonly save: SaveStatus;
  readonly signal: AbortSignal;
}

/**
 * Requests the agent to resume an interrupted run. The attempt is stored before the request, on the
 * version of the conversation that was read: an operator that acts on an outdated version writes
 * nothing, and so resumes no run that was resumed, or abandoned, since.
 */
export async function resumeRun(
  { agent, clock, logger }: RunControlOptions,
  { endpoint, id }: PolledRun,
  { status: before, save, signal }: RunControlContext,
): Promise<{ readonly status: ConversationStatus; readonly againAfterMs?: number | undefined }> {
  const attempted = await save(withResumeAttempt(before));
  let isRequested = false;
  try {
    const state = await agent.conversation(endpoint, id, { signal });
    // A request to run would confirm the actions that wait for an answer by now.
    if (state?.executionStatus !== 'waiting_for_confirmation') {
      isRequested = true;
      await agent.run(endpoint, id, { signal });
    }
  } catch (error) {
    if (!(error instanceof AgentError) || signal.aborted) throw error;
    logger.info('the agent did not resume the run', { conversation: id, code: error.code });
    const status = withResumeFailed(attempted, error, isRequested);
    return { status, againAfterMs: status.interruption && retryAfterMs(status.interruption) };
  }
  return { status: withRunResumed(attempted, isoTime(clock)) };
}

/**
 * Interrupts a run whose agent has reported nothing for longer than the template allows. The status
 * is stored before the interrupt, because a run that is paused without a known cause would wait for
 * ever.
 */
export async function interruptStuckRun(
  { agent, clock, stuck }: RunControlOptions,
  run: PolledRun & { readonly stuckAfter: string | undefined },
  { status, save, signal }: RunControlContext,
): Promise<ConversationStatus> {
  const key = runKey(run);
  const quietMs = stuck.quietMs(key, status);
  const { stuckAfter } = run;
  if (
    stuckAfter === undefined ||
    status.executionStatus !== 'running' ||
    quietMs < durationMs(stuckAfter)
  )
    return status;
  const interrupted = await save(withRunStuck(status, isoTime(clock), stuckAfter));
  let isAccepted = false;
  try {
    await agent.interrupt(run.endpoint, run.id, { signal });
    isAccepted = true;
  } finally {
    stuck.recordInterrupt(key, isAccepted);
  }
  return interrupted;
}
