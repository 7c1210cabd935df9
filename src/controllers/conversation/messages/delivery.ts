import type { Logger } from '@conversation-operator/base/logger';
import type {
  AgentClient,
  AgentConversation,
  AgentEndpoint,
  AgentUserMessage,
} from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import {
  undeliveredMessages,
  type Conversation,
  type LaterMessage,
} from '../../../resources/conversation.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { abortedAfter } from '../../agent-calls/aborted-after.ts';
import { requestKey } from '../../controller-spec.ts';
import { withoutEarlierAnswer } from '../approvals/decide.ts';
import { withBudgetQuestionWithdrawn } from '../budget/decide.ts';
import type { SaveStatus, Scope } from '../scope.ts';
import { storedConversation } from '../../stored-object.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request } from '@conversation-operator/kube/controller';
import {
  isLost,
  maxAttempts,
  unconfirmedDelivery,
  type InFlight,
  type UnconfirmedDelivery,
  withDelivered,
  withInFlight,
  withNothingInFlight,
  withRejected,
  withoutRunPending,
} from './decide.ts';
import { matchesPattern } from '../../../resources/agent-settings.ts';
import { isRecent, type PolledRun } from '../execution/run-observer.ts';
import { withRunRequested } from '../execution/run-resume.ts';

const pendingRunMs = 1_000;

/** Whether to request a run for the stored message; `later` if only a later report can tell. */
export function runRequestOf(
  { messages }: ConversationStatus,
  { executionStatus }: AgentConversation,
  nowMs: number,
): 'run' | 'later' | 'none' {
  if (messages?.runPending !== true) return 'none';
  if (executionStatus === 'idle' || executionStatus === messages.previousExecutionStatus)
    return 'run';
  // A request to run would confirm the action that waits for an answer. After a confirmation the
  // agent runs by itself; after a rejection it is idle.
  if (executionStatus === 'waiting_for_confirmation') return 'later';
  // A stored message leaves the agent idle or in the previous status. Another status comes from a
  // later event, such as a pause by a person, which a request to run would undo.
  return isRecent(messages, nowMs) ? 'later' : 'none';
}

/**
 * Requests the agent to run a stored message if the agent has not started a run for the message.
 * Reads the agent's status first, because a request to run confirms the actions that wait for an
 * answer. Returns the milliseconds until the next attempt while the run is pending.
 */
export async function requestPendingRun(
  {
    agent,
    clock,
  }: { readonly agent: Pick<AgentClient, 'conversation' | 'run'>; readonly clock: Clock },
  { endpoint, id, state: polled }: Pick<PolledRun, 'endpoint' | 'id' | 'state'>,
  { status, signal }: Pick<Scope, 'status' | 'signal'>,
): Promise<{ readonly status: ConversationStatus; readonly againAfterMs?: number }> {
  if (status.messages?.runPending !== true) return { status };
  const isWaiting = polled.executionStatus === 'waiting_for_confirmation';
  const state = isWaiting ? polled : await agent.conversation(endpoint, id, { signal });
  const request = state === undefined ? 'later' : runRequestOf(status, state, clock.now());
  if (request === 'later') return { status, againAfterMs: pendingRunMs };
  if (request === 'none') return { status: withoutRunPending(status) };
  await agent.run(endpoint, id, { signal });
  return { status: withRunRequested(withoutRunPending(status), isoTime(clock)) };
}

/** Text with which an agent replaces secrets that the agent knows. */
const mask = '<secret-hidden>';

const textOf = ({ content }: LaterMessage): string =>
  content.map(({ text }) => text ?? '').join('\n');

export function isStored(message: LaterMessage, stored: readonly AgentUserMessage[]): boolean {
  const text = textOf(message);
  return stored.some((candidate) => matchesPattern(text, candidate.text, mask));
}

export interface DeliveryOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly agent: AgentClient;
  readonly events: Pick<EventRecorder, 'record'>;
}

/** A conversation whose agent has answered a poll. */
export interface Recipient {
  readonly conversation: CachedConversation;
  readonly endpoint: AgentEndpoint;
  readonly id: string;
  readonly container: string | undefined;
  readonly state: AgentConversation;
  /** Reads the message of this number with its content; undefined if the API server lacks it. */
  readonly message: (number: number) => Promise<LaterMessage | undefined>;
  readonly save: SaveStatus;
  readonly signal: AbortSignal;
}

export interface Delivered {
  readonly status: ConversationStatus;
  /** Milliseconds until the next attempt; undefined when no message waits. */
  readonly againAfterMs?: number | undefined;
  /** Error of an agent that has certainly not received the next message. */
  readonly error?: AgentError;
}

interface Sent extends Omit<Delivered, 'againAfterMs'> {
  readonly isDone: boolean;
}

interface Refused {
  readonly status: ConversationStatus;
  readonly message: LaterMessage;
  readonly verb: 'did not take' | 'refused';
}

/**
 * Maximum time of a call that sends a message. While a tool runs, the message waits at the agent,
 * and arrives although the call has timed out.
 */
const timeoutMs = 5_000;
/**
 * Maximum time between the write of `inFlight` and the send: far less than the delay after which
 * another process sends the message again.
 */
const maxMarkAgeMs = 5_000;
/** Maximum messages of one reconcile, so that other conversations do not wait. */
const maxMessages = 10;
const againAfterMs = 1_000;

/**
 * Delivers the messages of conversations to agents: in order, and each exactly once. An agent can
 * not recognize a repeated message, so the operator stores `status.messages.inFlight` before it
 * sends: the number of the message, and the last message that the agent had before. A process that
 * finds `inFlight` searches the agent's later messages, and sends the message again only once the
 * first one can not arrive any more. The resourceVersion that was read is a precondition of the
 * write of `inFlight`, so only one of two processes sends the message.
 */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #unconfirmed = new Map<string, UnconfirmedDelivery>();

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  forget(conversation: Request): void {
    this.#unconfirmed.delete(requestKey(conversation));
  }

  /**
   * Delivers the messages of a conversation and requests their runs. The run of an earlier message
   * is requested first, so that a failure to deliver a later message does not delay the run.
   * Returns the milliseconds until the next attempt.
   */
  async follow(scope: Scope, run: PolledRun): Promise<number | undefined> {
    await this.#requestRun(scope, run);
    const messagesMs = await this.#deliverTo(scope, run);
    const pendingMs = await this.#requestRun(scope, run);
    return messagesMs === undefined || pendingMs === undefined
      ? (messagesMs ?? pendingMs)
      : Math.min(messagesMs, pendingMs);
  }

  async #requestRun(scope: Scope, run: PolledRun): Promise<number | undefined> {
    const requested = await requestPendingRun(this.#options, run, scope);
    scope.status = requested.status;
    return requested.againAfterMs;
  }

  async #deliverTo(scope: Scope, run: PolledRun): Promise<number | undefined> {
    const { client, clock } = this.#options;
    const { stored: conversation, save, signal } = scope;
    const before = scope.status.messages?.lastDelivered;
    let read: Promise<Conversation | undefined> | undefined;
    const message = async (number: number) => {
      const stored = await (read ??= storedConversation({ client, signal }, conversation));
      return stored?.spec.messages?.find((each) => each.number === number);
    };
    const container = run.sandbox.status?.containerID;
    const recipient = { ...run, conversation, container, message, save, signal };
    const { status, againAfterMs: afterMs, error } = await this.deliver(recipient, scope.status);
    const isNew = status.messages?.lastDelivered !== before;
    const isLost = run.state.executionStatus !== 'waiting_for_confirmation';
    scope.status = isNew && isLost ? withoutEarlierAnswer(status, isoTime(clock)) : status;
    if (error !== undefined) throw error;
    return afterMs;
  }

  async deliver(recipient: Recipient, before: ConversationStatus): Promise<Delivered> {
    const { spec, metadata } = recipient.conversation;
    let status = before;
    for (let count = 0; count < maxMessages; count++) {
      const next = undeliveredMessages({ spec, status })[0];
      if (next === undefined) return { status };
      const message = await recipient.message(next.number);
      // The sender has removed the message, and the cache does not show that yet.
      if (message === undefined) return { status, againAfterMs };
      const sent = await this.#deliverOne(recipient, status, message);
      status = sent.status;
      if (!sent.isDone) return { ...sent, againAfterMs };
      this.forget(metadata);
    }
    return { status, againAfterMs: 1 };
  }

  async #deliverOne(
    recipient: Recipient,
    status: ConversationStatus,
    message: LaterMessage,
  ): Promise<Sent> {
    const { clock } = this.#options;
    let mark: InFlight | 'stored' | undefined;
    try {
      mark = await this.#nextMark(recipient, status, message);
    } catch (error) {
      if (error instanceof AgentError) return { status, isDone: false, error };
      throw error;
    }
    if (mark === undefined) return { status, isDone: false };
    if (mark === 'stored')
      return { status: withDelivered(status, message, { now: isoTime(clock) }), isDone: true };
    if (mark.attempt > maxAttempts)
      return this.#reject(recipient, { status, message, verb: 'did not take' });
    const began = clock.monotonic();
    // The run that the message begins finds out anew whether the budget has room. A refusal of its
    // calls comes after this write, and so is kept.
    const next = message.run ? withBudgetQuestionWithdrawn(status, isoTime(clock)) : status;
    const marked = await recipient.save(withInFlight(next, mark));
    // After a slow write, another process may have found `inFlight` and be about to send.
    if (clock.monotonic() - began > maxMarkAgeMs || recipient.signal.aborted)
      return { status: marked, isDone: false };
    return this.#send(recipient, marked, message);
  }

  /**
   * The `inFlight` of the next attempt; `stored` when the agent has the message; undefined while
   * the message may still arrive.
   */
  async #nextMark(
    recipient: Recipient,
    { messages }: ConversationStatus,
    message: LaterMessage,
  ): Promise<InFlight | 'stored' | undefined> {
    const { agent, clock } = this.#options;
    const { endpoint, id, container, signal } = recipient;
    const mark = {
      number: message.number,
      time: isoTime(clock),
      ...(container === undefined ? {} : { container }),
    };
    const inFlight = messages?.inFlight;
    if (inFlight?.number !== message.number) {
      const [last] = await agent.userMessages(endpoint, id, 1, { signal });
      return {
        ...mark,
        attempt: 1,
        ...(last === undefined ? {} : { after: { id: last.id, timestamp: last.timestamp } }),
      };
    }
    // `#observe` runs before the search, so that the search finds a message stored in between.
    const unconfirmed = this.#observe(recipient, inFlight);
    if (isStored(message, await agent.userMessagesAfter(endpoint, id, inFlight.after, { signal })))
      return 'stored';
    if (!isLost(unconfirmed, container, clock.monotonic())) return undefined;
    return { ...inFlight, ...mark, attempt: inFlight.attempt + 1 };
  }

  #observe(
    { conversation: { metadata }, container, state }: Recipient,
    inFlight: InFlight,
  ): UnconfirmedDelivery {
    const key = requestKey(metadata);
    const now = this.#options.clock.monotonic();
    const check = {
      uid: metadata.uid,
      inFlight,
      container,
      isRunning: state.executionStatus === 'running',
      now,
    };
    const unconfirmed = unconfirmedDelivery(this.#unconfirmed.get(key), check);
    this.#unconfirmed.set(key, unconfirmed);
    return unconfirmed;
  }

  async #send(
    recipient: Recipient,
    status: ConversationStatus,
    message: LaterMessage,
  ): Promise<Sent> {
    const { agent, clock, logger } = this.#options;
    const { endpoint, id, conversation, state, signal } = recipient;
    const timeout = abortedAfter(clock, timeoutMs, signal);
    try {
      const { role, content } = message;
      // An action may wait for a confirmation by now, and `run: true` would confirm the action.
      await agent.sendMessage(
        endpoint,
        id,
        { role, content, run: false },
        { signal: timeout.signal },
      );
      return {
        status: withDelivered(status, message, { now: isoTime(clock), was: state.executionStatus }),
        isDone: true,
      };
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      logger.debug('message not confirmed', {
        conversation: conversation.metadata.name,
        number: message.number,
        code: error.code,
      });
      if (error.code === 'refused')
        return this.#reject(recipient, { status, message, verb: 'refused' });
      return error.outcomeUnknown
        ? { status, isDone: false }
        : { status: withNothingInFlight(status), isDone: false, error };
    } finally {
      timeout.cancel();
    }
  }

  /** Skips a message. The Event omits the agent's text, which may contain the message. */
  #reject({ conversation }: Recipient, { status, message, verb }: Refused): Sent {
    this.#options.events.record(conversation, {
      type: 'Warning',
      reason: 'MessageRefused',
      message: `The agent ${verb} message ${message.number}.`,
    });
    return { status: withRejected(status, message), isDone: true };
  }
}
