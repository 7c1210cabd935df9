import type { AgentConversation, AgentUserMessage } from '../../../agent/agent.ts';
import type { ConversationStatus, ExecutionStatus, LaterMessage, MessageState } from '../../../resources/conversation.ts';
import { withRunAsked } from '../execution/run-resume.ts';
import { newsOf } from '../execution/decide.ts';

/** Pure decisions about the messages after the first one; `delivery.ts` acts on them. */

export type Sending = NonNullable<MessageState['inFlight']>;

/** After this time nothing of a call that is in doubt is still under way, unless it waits for a tool of a run. */
const settleMs = 20_000;
/** A run may just have ended when it is seen to stand, and a message that waited for that be on its way to the disk. */
const standingMs = 3_000;
/** So often a message is sent that the agent fails to take, again and again. */
export const mostAttempts = 10;
/** The agent's stored state lags behind: for so long after a message, what it says of standing still is old. */
const staleAfterMessageMs = 1_500;

/** What one process has seen of a message whose sending nobody knows the outcome of. Milliseconds of its monotonic clock. */
export interface Doubt {
  readonly uid: string;
  readonly sending: Sending;
  readonly since: number;
  /** Since when the agent's run stands; absent while it runs. */
  readonly standsSince: number | undefined;
  /** When the agent was last seen in the container that the message was sent to; absent: never. */
  readonly lastInContainer: number | undefined;
}

export interface Look {
  readonly uid: string;
  readonly sending: Sending;
  /** That the agent is in now. */
  readonly container: string | undefined;
  readonly runs: boolean;
  readonly now: number;
}

const isSame = (one: Sending, other: Sending): boolean =>
  one.number === other.number && one.attempt === other.attempt && one.time === other.time;

/**
 * The doubt after one more look. A process that has not had it before knows nothing of the time before: whoever sent the message
 * may have done so just now.
 */
export function doubtOf(known: Doubt | undefined, { uid, sending, container, runs, now }: Look): Doubt {
  const before = known?.uid === uid && isSame(known.sending, sending) ? known : undefined;
  return {
    uid,
    sending,
    since: before?.since ?? now,
    standsSince: runs ? undefined : (before?.standsSince ?? now),
    lastInContainer: container !== undefined && container === sending.container ? now : before?.lastInContainer,
  };
}

/**
 * Whether a message that the agent does not have can't come any more, so that it may be sent again. While a tool runs, one that was
 * sent waits at the agent for its end, however long that takes and whoever has given up; it ends with its container. One that was
 * under way when the container ended may wait in the next one, at the same address.
 */
export function isLost({ since, sending, standsSince, lastInContainer }: Doubt, container: string | undefined, now: number): boolean {
  if (now - since < settleMs) return false;
  const hadArrived = lastInContainer !== undefined && lastInContainer - since >= settleMs;
  const endedWithContainer = hadArrived && container !== undefined && sending.container !== container;
  return endedWithContainer || (standsSince !== undefined && now - standsSince >= standingMs);
}

/** What the agent puts in the place of secrets that it knows. */
const mask = '<secret-hidden>';

const textOf = ({ content }: LaterMessage): string => content.map(({ text }) => text ?? '').join('\n');

/** Whether what the agent has stored is this message. */
export function isStored(message: LaterMessage, stored: readonly AgentUserMessage[]): boolean {
  const text = textOf(message);
  return stored.some((candidate) => candidate.text === text || (candidate.text.includes(mask) && isMasked(text, candidate.text)));
}

function isMasked(text: string, masked: string): boolean {
  const parts = masked.split(mask);
  const [first = '', last = ''] = [parts[0], parts.at(-1)];
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let position = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, position);
    if (found < 0) return false;
    position = found + part.length;
  }
  return position <= text.length - last.length;
}

export const withSending = (status: ConversationStatus, sending: Sending): ConversationStatus => ({
  ...status,
  messages: { ...withoutSending(status.messages), inFlight: sending },
});

/**
 * The agent has the conversation. Its first message lets it begin at once, and what it says of itself a moment later may be older.
 * One that was `there` already may have been cut since, before it began: then it has to be told to.
 */
export function withFirstMessage(
  status: ConversationStatus,
  message: Pick<LaterMessage, 'run'> | undefined,
  state: AgentConversation,
  { created, agentEpoch, now }: { readonly created: boolean; readonly agentEpoch: number; readonly now: string },
): ConversationStatus {
  const { executionStatus } = state;
  const begins = message?.run === true && (executionStatus === 'idle' || executionStatus === 'running');
  if (!created)
    return begins && executionStatus === 'idle'
      ? { ...status, messages: { lastDelivered: 0, lastDeliveredTime: now, runPending: true } }
      : status;
  if (!begins) return { ...status, ...newsOf(state, Date.parse(now)), agentEpoch, executionStatus: executionStatus ?? 'idle' };
  return {
    ...status,
    ...newsOf(state, Date.parse(now)),
    agentEpoch,
    executionStatus: 'running',
    messages: { lastDelivered: 0, lastDeliveredTime: now },
  };
}

/** It is known that the agent has not got it. */
export const withNothingSent = (status: ConversationStatus): ConversationStatus => ({
  ...status,
  messages: withoutSending(status.messages),
});

export interface Told {
  /** It works on it, or does so by itself. */
  readonly started: boolean;
  readonly now: string;
  /** What it was a moment before; undefined: nobody knows. */
  readonly was?: ExecutionStatus | undefined;
}

/** The agent has stored it. */
export function withTold(status: ConversationStatus, message: LaterMessage, { started, now, was }: Told): ConversationStatus {
  const told = { ...withoutSending(status.messages), lastDelivered: message.number };
  if (!message.run) return { ...status, messages: told };
  if (!started) {
    const { previousExecutionStatus: _, ...pending } = { ...told, runPending: true, lastDeliveredTime: now };
    // A message makes the agent idle, but for these two.
    return { ...status, messages: was === 'paused' || was === 'error' ? { ...pending, previousExecutionStatus: was } : pending };
  }
  return withRunAsked(withoutRunPending({ ...status, messages: { ...told, lastDeliveredTime: now } }), now);
}

/** The agent refuses it, and would again: those after it do not wait for that. */
export const withRefused = (status: ConversationStatus, { number }: LaterMessage): ConversationStatus => ({
  ...status,
  messages: { ...withoutSending(status.messages), lastDelivered: number },
});

const withoutSending = ({ inFlight: _sending, ...messages }: MessageState = { lastDelivered: 0 }) => messages;

const isYoung = ({ lastDeliveredTime }: MessageState, nowMs: number): boolean => {
  const ageMs = lastDeliveredTime === undefined ? Infinity : nowMs - Date.parse(lastDeliveredTime);
  return ageMs >= 0 && ageMs < staleAfterMessageMs;
};

/** What the agent says of itself, corrected by what it has been told a moment ago. */
export function sinceMessage(
  state: AgentConversation,
  { messages, executionStatus, agentEpoch: seenIn }: ConversationStatus,
  { agentEpoch, nowMs }: { readonly agentEpoch: number; readonly nowMs: number },
): AgentConversation {
  // In a container that is new it is not what it was told to the one before that is on its way.
  const outdated =
    seenIn === agentEpoch &&
    messages !== undefined &&
    executionStatus === 'running' &&
    messages.runPending !== true &&
    isYoung(messages, nowMs);
  if (!outdated || state.executionStatus === 'waiting_for_confirmation') return state;
  return { ...state, executionStatus: 'running' };
}

/** Whether the agent has to be told to begin with what it has stored; `later`: it is too early to know. */
export function runOf({ messages }: ConversationStatus, { executionStatus }: AgentConversation, nowMs: number): 'run' | 'later' | 'none' {
  if (messages?.runPending !== true) return 'none';
  if (executionStatus === 'idle' || executionStatus === messages.previousExecutionStatus) return 'run';
  // To be told to run would be a confirmation. Once that is given it runs by itself, and once it is refused it is idle.
  if (executionStatus === 'waiting_for_confirmation') return 'later';
  // Only what has just been stored is `idle`, or what it was before. Anything else has happened since, and may be what somebody wants.
  return isYoung(messages, nowMs) ? 'later' : 'none';
}

export function withoutRunPending(status: ConversationStatus): ConversationStatus {
  if (status.messages?.runPending === undefined) return status;
  const { runPending: _runPending, previousExecutionStatus: _stood, ...messages } = status.messages;
  return { ...status, messages };
}
