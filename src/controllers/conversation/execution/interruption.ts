import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { SandboxReason, type Sandbox } from '../../../resources/sandbox.ts';
import type { SandboxView } from '../../../status/sandbox-phase.ts';

export type InterruptedRun = NonNullable<ConversationStatus['interruption']>;

export const Interruption = {
  user: SandboxReason.user,
  loss: 'Loss',
  /** The pod was drained, deleted or lost with its node. `containerLosses` does not count this. */
  disruption: 'Disruption',
  /** The agent ran and reported nothing for longer than the template allows. */
  stalled: 'Stalled',
  /** The relay refused a call of the run's model. The run continues once the budget has room. */
  budget: SandboxReason.budgetExhausted,
} as const;

/** Fields of a sandbox's status that record how its agent was interrupted. */
export type SandboxInterruptions = Pick<
  NonNullable<Sandbox['status']>,
  | 'lastInterruption'
  | 'lastUserPauseEpoch'
  | 'lastDisruptionEpoch'
  | 'interruptedConversationIDs'
  | 'activeSinceTime'
>;

const never = -1;

/**
 * The reason for the interruption of a run that the operator last saw in `agentEpoch`: a pause by
 * the owner since then, whatever else happened; else another pause since then; else the loss of the
 * pod or of the container. Epochs are compared by order, because the operator may have missed some.
 */
export const interruptionReason = (
  agentEpoch: number | undefined,
  {
    lastInterruption,
    lastUserPauseEpoch = never,
    lastDisruptionEpoch = never,
  }: SandboxInterruptions,
  paused?: SandboxView,
): string => {
  const seenIn = agentEpoch ?? 0;
  if (lastUserPauseEpoch >= seenIn) return Interruption.user;
  if (paused !== undefined) return paused.reason;
  if (lastInterruption !== undefined && lastInterruption.agentEpoch >= seenIn)
    return lastInterruption.reason;
  return lastDisruptionEpoch >= seenIn ? Interruption.disruption : Interruption.loss;
};

/**
 * Returns the `agentEpoch` in which the last pause interrupted a run of this conversation, unless
 * the operator has polled the agent since.
 */
export const unseenInterruptionEpoch = (
  { agentEpoch = 0 }: ConversationStatus,
  id: string,
  { lastInterruption, interruptedConversationIDs: interrupted }: SandboxInterruptions,
): number | undefined =>
  lastInterruption !== undefined &&
  lastInterruption.agentEpoch >= agentEpoch &&
  interrupted?.includes(id) === true
    ? lastInterruption.agentEpoch
    : undefined;

/** The interruption of a run that has not resumed yet; undefined once the run has resumed. */
export const pendingInterruption = ({
  interruption,
}: ConversationStatus): InterruptedRun | undefined =>
  interruption?.lastResumeTime === undefined ? interruption : undefined;

/** The interruption, with `Interruption.user` as its reason if the owner has paused the sandbox. */
export const withUserPause = (
  { interruption, agentEpoch = 0 }: ConversationStatus,
  { lastUserPauseEpoch = never }: SandboxInterruptions,
): InterruptedRun | undefined => {
  if (
    interruption === undefined ||
    interruption.reason === Interruption.user ||
    lastUserPauseEpoch < agentEpoch
  )
    return interruption;
  const { time, lastResumeTime } = interruption;
  return {
    reason: Interruption.user,
    time,
    ...(lastResumeTime === undefined ? {} : { lastResumeTime }),
  };
};

/**
 * Whether an earlier request to resume may have resumed the run: the request got no response, and
 * the agent now answers from a newer container. Requests that the agent rejected, and requests that
 * did not reach the agent, do not count.
 */
export function isResumeUnconfirmed(
  { agentEpoch: requestedIn = 0 }: ConversationStatus,
  interruption: InterruptedRun | undefined,
  agentEpoch: number,
): boolean {
  if (
    interruption === undefined ||
    interruption.abandonedReason !== undefined ||
    interruption.reason === Interruption.user
  )
    return false;
  const {
    resumeAttempts = 0,
    resumeRejections = 0,
    resumesNotExecuted = 0,
    lastResumeTime,
  } = interruption;
  const isInDoubt = resumeAttempts > resumeRejections + resumesNotExecuted;
  return lastResumeTime === undefined && isInDoubt && agentEpoch > requestedIn;
}
