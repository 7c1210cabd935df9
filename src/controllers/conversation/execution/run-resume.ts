import type { AgentErrorCode } from '../../../agent/errors.ts';
import type { ConversationStatus } from '../../../resources/conversation.ts';
import { SandboxReason } from '../../../resources/sandbox.ts';

/** Pure decisions about how often a run that was cut goes on by itself, and when it is given up. */

export type InterruptedRun = NonNullable<ConversationStatus['interruption']>;

export const Interruption = {
  user: SandboxReason.user,
  loss: 'Loss',
  /** Its pod was drained, deleted or lost with its node. That says nothing against the run, so it is not counted. */
  disruption: 'Disruption',
  /** It ran, and nothing was heard of it for longer than its template allows. */
  stalled: 'Stalled',
} as const;

/**
 * So often in a row a run goes on that has lost its container. A tool that takes all memory ends the container each time that the
 * model asks for it again, and each time costs money, so steps of the agent are no progress; only time is. One more loss, and the
 * sandbox itself would be given up for its restarts (`crashLoopRestarts`).
 */
export const mostLosses = 2;
/** A run that has gone on for so long has not been lost by what it was continued with. As long as a kubelet takes to forget crashes. */
export const healthyRunMs = 10 * 60_000;
/** So often an agent is told to go on that answers with a refusal; with the pauses between, some two minutes. */
export const mostRefusals = 8;

const longestRetryMs = 30_000;

/** A run has been cut, with this reason. */
export function interruptedAnew(before: InterruptedRun | undefined, reason: string, now: string): InterruptedRun {
  const ranMs = before?.lastResumeTime === undefined ? 0 : Date.parse(now) - Date.parse(before.lastResumeTime);
  const losses = ranMs >= healthyRunMs ? 0 : (before?.containerLosses ?? 0);
  const counted = reason === Interruption.loss ? losses + 1 : losses;
  // Whatever was lost before: its owner has looked at it, and decides how it goes on.
  return { reason, time: now, ...(counted === 0 || reason === Interruption.user ? {} : { containerLosses: counted }) };
}

/** Why it does not go on by itself any more, if so. */
export function givenUpFor({
  reason,
  containerLosses: losses = 0,
  resumeRejections: refusals = 0,
  abandonedReason,
}: InterruptedRun): InterruptedRun['abandonedReason'] {
  if (abandonedReason !== undefined) return abandonedReason;
  if (refusals >= mostRefusals) return 'Refused';
  return reason === Interruption.loss && losses > mostLosses ? 'LostTooOften' : undefined;
}

/** Stored before the agent is told to go on: however that ends, and whoever looks next, it counts. */
export const withAttempt = (status: ConversationStatus): ConversationStatus => ({
  ...status,
  ...(status.interruption === undefined
    ? {}
    : { interruption: { ...status.interruption, resumeAttempts: (status.interruption.resumeAttempts ?? 0) + 1 } }),
});

/** An agent that answers, and not because it is busy or has just started, is not going to go on. */
const refusals: ReadonlySet<AgentErrorCode> = new Set(['refused', 'failed', 'not-found', 'malformed']);

/** The agent has not taken the order to go on. */
export function withRunRefused(status: ConversationStatus, code: AgentErrorCode): ConversationStatus {
  const { interruption } = status;
  if (interruption === undefined || !refusals.has(code)) return status;
  return { ...status, interruption: { ...interruption, resumeRejections: (interruption.resumeRejections ?? 0) + 1 } };
}

/** When to tell it again. */
export const retryAfterMs = ({ resumeAttempts: attempts = 1 }: InterruptedRun): number =>
  Math.min(longestRetryMs, 1_000 * 2 ** (attempts - 1));

/** After the agent has taken the order to go on. What was lost before counts until the run has lasted, or is over. */
export function withRunContinued({ executionDetail: _past, ...status }: ConversationStatus, now: string): ConversationStatus {
  const { interruption } = status;
  return { ...status, executionStatus: 'running', ...(interruption === undefined ? {} : { interruption: continued(interruption, now) }) };
}

/** Somebody wants it to work. What was lost before does not count against that. */
export function withRunAsked(status: ConversationStatus, now: string): ConversationStatus {
  const { containerLosses: _losses, ...interruption } = status.interruption ?? {};
  return withRunContinued('reason' in interruption ? { ...status, interruption } : status, now);
}

export const continued = ({ reason, time, containerLosses: losses }: InterruptedRun, now: string): InterruptedRun => ({
  reason,
  time,
  ...(losses === undefined ? {} : { containerLosses: losses }),
  lastResumeTime: now,
});

/** Nothing was heard of a run for so long that it was stopped. */
export const withStall = (status: ConversationStatus, now: string, allowed: string): ConversationStatus => ({
  ...status,
  executionStatus: 'stuck',
  executionDetail: `Stopped: its agent ran, and reported nothing for ${allowed} (agent.stuckAfter of its template). A message lets it go on.`,
  interruption: { reason: Interruption.stalled, time: now, abandonedReason: 'Stalled' },
});

/** What a run that stands is waiting for, in words. */
export function wordsOf(interruption: InterruptedRun): string {
  const { reason, containerLosses: losses = 0, resumeRejections: refused = 0 } = interruption;
  switch (givenUpFor(interruption)) {
    case 'LostTooOften':
      return `Given up: its agent's container was lost ${losses} times in a row, each time soon after the run had gone on. A message lets it go on.`;
    case 'Refused':
      return `Given up: its agent refused ${refused} times to go on with the run that was cut. A message lets it go on.`;
    case 'Stalled':
      return 'Stopped: its agent ran, and reported nothing for too long. A message lets it go on.';
    case undefined:
      break;
  }
  if (reason === Interruption.user) return 'Its run was cut by a pause by its owner. It goes on with a message, or when it is told to.';
  if (reason === Interruption.loss)
    return "Its run was cut because its agent's container was lost. It goes on by itself when the agent is back.";
  if (reason === Interruption.disruption)
    return 'Its run was cut because its pod was taken away: a drained, lost or full node, or a deletion. It goes on by itself when the agent is back.';
  return `Its run was cut by a pause of its sandbox (${reason}). It goes on by itself when the sandbox is back.`;
}
