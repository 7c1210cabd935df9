import { hasAnswerToGive } from '../resources/approval.ts';
import { isStartOver, startStatusOf, undeliveredMessages } from '../resources/conversation.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { SandboxReason, isRunRequested, type Sandbox } from '../resources/sandbox.ts';

/**
 * Whether a message or an answer of a person waits for the agent of a conversation that has
 * started.
 */
export const hasUndelivered = (conversation: CachedConversation): boolean =>
  startStatusOf(conversation) === 'READY' &&
  (undeliveredMessages(conversation).length > 0 || hasAnswerToGive(conversation));

/**
 * Whether an undelivered message or answer makes the agent work. A conversation in `error` may
 * never get one.
 */
const isToBeDelivered = (conversation: CachedConversation): boolean =>
  hasUndelivered(conversation) && conversation.status?.executionStatus !== 'error';

/**
 * Whether a run continues by itself, because something else than its owner's pause has interrupted
 * it.
 */
export const isToContinue = ({ status }: CachedConversation): boolean =>
  status?.executionStatus === 'paused' &&
  status.interruption !== undefined &&
  status.interruption.reason !== SandboxReason.user;

/** Whether the agent works, or will by itself: with an interrupted run, or with a message. */
export const isWorking = (conversation: CachedConversation): boolean =>
  conversation.status?.executionStatus === 'running' ||
  isToContinue(conversation) ||
  isToBeDelivered(conversation);

/**
 * Whether the agent was not polled since its container started: it may have work that no status
 * shows yet.
 */
export function isUnasked(conversation: CachedConversation, sandbox: Sandbox): boolean {
  const { executionStatus, agentEpoch = 0 } = conversation.status ?? {};
  if (startStatusOf(conversation) !== 'READY' || executionStatus === 'error') return false;
  return executionStatus === undefined || agentEpoch < (sandbox.status?.agentEpoch ?? 0);
}

export const isUnderWay = (conversation: CachedConversation): boolean =>
  !isStartOver(startStatusOf(conversation));

/**
 * Whether a conversation has work left: its start, a message, or a run that was interrupted and not
 * abandoned.
 */
export function isUnfinished(conversation: CachedConversation): boolean {
  const { executionStatus, interruption } = conversation.status ?? {};
  const interrupted =
    interruption !== undefined &&
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

/** Whether a person has asked that a run of the sandbox continue, and such a run exists. */
export const isRunWanted = (
  sandbox: Sandbox,
  conversations: readonly CachedConversation[],
): boolean =>
  isRunRequested(sandbox) &&
  conversations.some(({ status }) => !runOver.has(status?.executionStatus));
