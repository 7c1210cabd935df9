import type { AgentConversation } from '../../../agent/agent.ts';
import type { LaterMessage } from '../../../resources/conversation.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
  MessageState,
} from '../../../resources/conversation-status.ts';
import { reportedFields } from '../execution/decide.ts';
import type { InFlight } from './decide.ts';

/** Pure changes of a conversation's status by the delivery of messages. */

const withoutInFlight = (
  { inFlight: _inFlight, ...messages }: MessageState = { lastDelivered: 0 },
) => messages;

/** Marks a message as in flight. */
export const withInFlight = (
  status: ConversationStatus,
  inFlight: InFlight,
): ConversationStatus => ({
  ...status,
  messages: { ...withoutInFlight(status.messages), inFlight },
});

/** Removes the mark of a message that the agent has certainly not received. */
export const withNothingInFlight = (status: ConversationStatus): ConversationStatus => ({
  ...status,
  messages: withoutInFlight(status.messages),
});

/** Skips a message that the agent rejects for good, so that later messages do not wait. */
export const withRejected = (
  status: ConversationStatus,
  { number }: LaterMessage,
): ConversationStatus => ({
  ...status,
  messages: { ...withoutInFlight(status.messages), lastDelivered: number },
});

/**
 * Records that the agent has the conversation. The first message starts a run at once, and the
 * report of the agent may be older than the run. A conversation that the agent had before
 * (`created` is false) may have been interrupted before the run: then the run is pending.
 */
export function withFirstMessage(
  status: ConversationStatus,
  message: Pick<LaterMessage, 'run'> | undefined,
  state: AgentConversation,
  {
    created,
    agentEpoch,
    now,
  }: { readonly created: boolean; readonly agentEpoch: number; readonly now: string },
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

export interface DeliveryResult {
  readonly now: string;
  /** Status of the run before the message; undefined when the status is unknown. */
  readonly was?: ExecutionStatus | undefined;
}

/** Records that the agent has stored the message, whose run is requested afterwards. */
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
