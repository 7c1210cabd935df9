import type {
  MessageState,
  ConversationStatus,
  ExecutionStatus,
} from '../../../resources/conversation-status.ts';
import type { AgentConversation } from '../../../agent/agent.ts';
import type { LaterMessage } from '../../../resources/conversation.ts';
import { reportedFields } from '../execution/decide.ts';

const withoutInFlight = (
  { inFlight: _inFlight, ...messages }: MessageState = { lastDelivered: 0 },
) => messages;

export const withInFlight = (
  status: ConversationStatus,
  inFlight: InFlight,
): ConversationStatus => ({
  ...status,
  messages: { ...withoutInFlight(status.messages), inFlight },
});

/** Removes the record of a message in flight that the agent has certainly not received. */
export const withNothingInFlight = (status: ConversationStatus): ConversationStatus => ({
  ...status,
  messages: withoutInFlight(status.messages),
});

/** Skips a message that the agent permanently rejects, so that later messages do not wait. */
export const withRejected = (
  status: ConversationStatus,
  { number }: LaterMessage,
): ConversationStatus => ({
  ...status,
  messages: { ...withoutInFlight(status.messages), lastDelivered: number },
});

interface FirstMessage {
  readonly message: Pick<LaterMessage, 'run'> | undefined;
  readonly state: AgentConversation;
  readonly created: boolean;
  readonly agentEpoch: number;
  readonly now: string;
}

/**
 * Records that the agent has the conversation. The first message starts a run at once, even if the
 * agent's report is older than the run. If the agent already had the conversation (`created` is
 * false) and is idle, the start was interrupted before the run, which is therefore pending.
 */
export function withFirstMessage(
  status: ConversationStatus,
  { message, state, created, agentEpoch, now }: FirstMessage,
): ConversationStatus {
  const { executionStatus } = state;
  const begins =
    message?.run === true && (executionStatus === 'idle' || executionStatus === 'running');
  const messages = { lastDelivered: 0, lastDeliveredTime: now };
  if (!created)
    return begins && executionStatus === 'idle'
      ? { ...status, messages: { ...messages, runPending: true } }
      : status;
  const reported = { ...status, ...reportedFields(state, Date.parse(now)), agentEpoch };
  return begins
    ? { ...reported, executionStatus: 'running', messages }
    : { ...reported, executionStatus: executionStatus ?? 'idle' };
}

interface DeliveryResult {
  readonly now: string;
  /** Status of the run before the message; undefined when the status is unknown. */
  readonly was?: ExecutionStatus | undefined;
}

/** Records that the agent has stored the message. The caller requests a run afterwards. */
export function withDelivered(
  status: ConversationStatus,
  message: LaterMessage,
  { now, was }: DeliveryResult,
): ConversationStatus {
  const messages = { ...withoutInFlight(status.messages), lastDelivered: message.number };
  if (!message.run) return { ...status, messages };
  const { previousExecutionStatus: _, ...pending } = {
    ...messages,
    runPending: true,
    lastDeliveredTime: now,
  };
  // A message makes an agent idle, unless its run is paused, in error or stuck.
  return {
    ...status,
    messages:
      was === 'paused' || was === 'error' || was === 'stuck'
        ? { ...pending, previousExecutionStatus: was }
        : pending,
  };
}

export function withoutRunPending(status: ConversationStatus): ConversationStatus {
  if (status.messages?.runPending === undefined) return status;
  const {
    runPending: _runPending,
    previousExecutionStatus: _previous,
    ...messages
  } = status.messages;
  return { ...status, messages };
}

export type InFlight = NonNullable<MessageState['inFlight']>;

/** Time after which a call to the agent has ended, unless the call waits for a running tool. */
const settleMs = 20_000;
/** Delay after a run until the agent has certainly stored the messages that waited for the run. */
const stoppedMs = 3_000;
export const maxAttempts = 10;

/** Observations of one process about an unconfirmed delivery, in monotonic milliseconds. */
export interface UnconfirmedDelivery {
  readonly uid: string;
  readonly inFlight: InFlight;
  /** Time at which this process first saw `inFlight`. */
  readonly since: number;
  /** Time since which the run is stopped; undefined while the run is running. */
  readonly stoppedSince: number | undefined;
  /** Last time at which the agent ran in the container of `inFlight`; undefined if never seen. */
  readonly lastInContainer: number | undefined;
}

export interface DeliveryCheck {
  readonly uid: string;
  readonly inFlight: InFlight;
  readonly container: string | undefined;
  readonly isRunning: boolean;
  readonly now: number;
}

const isSame = (one: InFlight, other: InFlight): boolean =>
  one.number === other.number && one.attempt === other.attempt && one.time === other.time;

/**
 * The observations after one more check. The observations start anew for another `inFlight`,
 * because another process may have just sent its message.
 */
export function unconfirmedDelivery(
  known: UnconfirmedDelivery | undefined,
  { uid, inFlight, container, isRunning, now }: DeliveryCheck,
): UnconfirmedDelivery {
  const before = known?.uid === uid && isSame(known.inFlight, inFlight) ? known : undefined;
  return {
    uid,
    inFlight,
    since: before?.since ?? now,
    stoppedSince: isRunning ? undefined : (before?.stoppedSince ?? now),
    lastInContainer:
      container !== undefined && container === inFlight.container ? now : before?.lastInContainer,
  };
}

/**
 * Whether a message that the agent has not stored can not arrive any more, so that it may be sent
 * again. While a tool runs, the agent keeps a message for any time, even after the caller has
 * stopped waiting, but loses the message if the container ends. A message that was still on the
 * network at that time may reach the next container, at the same address.
 */
export function isLost(
  { since, inFlight, stoppedSince, lastInContainer }: UnconfirmedDelivery,
  container: string | undefined,
  now: number,
): boolean {
  if (now - since < settleMs) return false;
  const hadArrived = lastInContainer !== undefined && lastInContainer - since >= settleMs;
  const endedWithContainer =
    hadArrived && container !== undefined && inFlight.container !== container;
  return endedWithContainer || (stoppedSince !== undefined && now - stoppedSince >= stoppedMs);
}
