import { hasAnswerToGive } from '../resources/approval.ts';
import { isStartOver, startStatusOf, undeliveredMessages } from '../resources/conversation.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { SandboxReason, isRunRequested, type Sandbox } from '../resources/sandbox.ts';

/** Whether a person's message or answer waits for the agent of a started conversation. */
export const hasUndelivered = (conversation: CachedConversation): boolean =>
  startStatusOf(conversation) === 'READY' &&
  (undeliveredMessages(conversation).length > 0 || hasAnswerToGive(conversation));

/** Whether a message or answer will make the agent work. In the status `error`, it does not. */
const isToBeDelivered = (conversation: CachedConversation): boolean =>
  hasUndelivered(conversation) && conversation.status?.executionStatus !== 'error';

/**
 * Whether an interrupted run continues automatically, because its owner did not pause it and no
 * budget holds it up.
 */
export const isToContinue = ({ status }: CachedConversation): boolean =>
  status?.executionStatus === 'paused' &&
  status.budgetExhaustion === undefined &&
  status.interruption !== undefined &&
  status.interruption.reason !== SandboxReason.user;

/** Whether the agent works, or will work because of an interrupted run or a message. */
export const isWorking = (conversation: CachedConversation): boolean =>
  conversation.status?.executionStatus === 'running' ||
  isToContinue(conversation) ||
  isToBeDelivered(conversation);

/** Whether the agent was not polled since its container started, so that its work is unknown. */
export function isUnasked(conversation: CachedConversation, sandbox: Sandbox): boolean {
  const { executionStatus, agentEpoch = 0 } = conversation.status ?? {};
  if (startStatusOf(conversation) !== 'READY' || executionStatus === 'error') return false;
  return executionStatus === undefined || agentEpoch < (sandbox.status?.agentEpoch ?? 0);
}

export const isUnderWay = (conversation: CachedConversation): boolean =>
  !isStartOver(startStatusOf(conversation));

/** Whether a conversation has work left: a start, a message, or a run that can continue. */
export function isUnfinished(conversation: CachedConversation): boolean {
  const { executionStatus, interruption, budgetExhaustion } = conversation.status ?? {};
  const interrupted =
    interruption !== undefined &&
    budgetExhaustion === undefined &&
    interruption.reason !== SandboxReason.user &&
    interruption.abandonedReason === undefined;
  return (
    isUnderWay(conversation) ||
    executionStatus === 'running' ||
    isToBeDelivered(conversation) ||
    interrupted
  );
}

/** States in which an agent has no run to continue. */
const runOver: ReadonlySet<unknown> = new Set(['finished', 'error', 'stuck']);

/** Whether a person has requested that the runs in a sandbox continue, and a run is not over. */
export const isRunWanted = (
  sandbox: Sandbox,
  conversations: readonly CachedConversation[],
): boolean =>
  isRunRequested(sandbox) &&
  conversations.some(({ status }) => !runOver.has(status?.executionStatus));

/** Parses a stored time to milliseconds since 1970. */
export const time = (timestamp: string | undefined, otherwise: number): number => {
  const ms = timestamp === undefined ? Number.NaN : Date.parse(timestamp);
  return Number.isNaN(ms) ? otherwise : ms;
};

interface InSandbox {
  readonly sandbox: Sandbox;
  readonly conversations: readonly CachedConversation[];
}

/**
 * Translates a stored time (milliseconds since 1970) to a clock that never jumps. `name` identifies
 * the time among the stored times of the sandbox.
 */
export type Steady = (name: string, ms: number) => number;

/** For each conversation: the time of the last known activity, and of the last start step. */
const lastActivity = (
  conversations: readonly CachedConversation[],
  steady: Steady,
): readonly number[] =>
  conversations.flatMap(({ metadata: { uid }, status: { start, lastActivityTime } = {} }) => [
    steady(`activity of ${uid}`, time(lastActivityTime, 0)),
    steady(`step of ${uid}`, time(start?.transitions.at(-1)?.time, 0)),
  ]);

/**
 * Time from which the agent of a sandbox is idle, in milliseconds since 1970; Infinity: it is not
 * idle. The first of these rules that matches applies:
 *
 * 1. An agent that works or will work (`isWorking`) is not idle.
 * 2. An agent that was not polled since its container started is not idle: it may work.
 * 3. An agent that waits for a confirmation is not idle, however long a person takes.
 * 4. Any other agent is idle since its last activity, since the last step of a start in the
 *    sandbox, or since the sandbox became active, whichever is the latest.
 */
export function idleSince(
  { sandbox, conversations }: InSandbox,
  activeSince: number,
  steady: Steady,
): number {
  const isHeld = conversations.some(
    (conversation) =>
      isWorking(conversation) ||
      isUnasked(conversation, sandbox) ||
      conversation.status?.executionStatus === 'waiting_for_confirmation',
  );
  return isHeld ? Infinity : Math.max(activeSince, ...lastActivity(conversations, steady));
}
