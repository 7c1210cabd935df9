import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/kube/clock';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Logger } from '@conversation-operator/kube/logger';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { undeliveredMessages, type ConversationStatus, type LaterMessage } from '../../../resources/conversation.ts';
import { abortedAfter } from '../../aborted-after.ts';
import {
  doubtOf,
  isLost,
  isStored,
  mostAttempts,
  withNothingSent,
  withRefused,
  withSending,
  withTold,
  type Doubt,
  type Sending,
} from './decide.ts';

export interface DeliveryOptions {
  readonly agent: AgentClient;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A conversation whose agent answers. */
export interface Addressee {
  /** As it is stored. */
  readonly conversation: CachedConversation;
  /** What its status is to become. */
  status: ConversationStatus;
  readonly endpoint: AgentEndpoint;
  readonly id: string;
  readonly container: string | undefined;
  /** What the agent has just said of itself. */
  readonly state: AgentConversation;
  /** The message of this number with its content; undefined where the API server has none. */
  message(number: number): Promise<LaterMessage | undefined>;
  /** Writes the status on the very version that was read, or throws. */
  store(): Promise<void>;
}

/** A tool that runs keeps a message waiting. It arrives all the same when nobody waits for that. */
const patienceMs = 5_000;
/** Between asking for the mark to be stored and sending the message; far less than what others wait before they send it again. */
const markIsFreshMs = 5_000;
/** In one go; after that others have their turn. */
const mostAtOnce = 10;
const lookAgainMs = 1_000;

/**
 * Tells agents what is in their conversations' queues: each message once, and in order. The agent can't tell a repetition from
 * another message, so before one is sent, that is written down together with the last message that the agent had before. Whoever
 * finds such a mark looks among those that came after it: it is there, or it is sent again once it can't come any more. The mark is
 * written on the version that was read, so that of two who want to send it only one does.
 */
export class Delivery {
  readonly #options: DeliveryOptions;
  /** By namespace and name. */
  readonly #doubts = new Map<string, Doubt>();

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  forget(namespace: string, name: string): void {
    this.#doubts.delete(`${namespace}/${name}`);
  }

  /** Returns when to look again, or undefined when all has been told. Throws `AgentError` when the agent has surely not got the next one. */
  async deliver(addressee: Addressee, signal: AbortSignal): Promise<number | undefined> {
    for (let count = 0; count < mostAtOnce; count++) {
      const next = undeliveredMessages({ spec: addressee.conversation.spec, status: addressee.status })[0];
      if (next === undefined) return undefined;
      const message = await addressee.message(next.number);
      // Its sender has taken it back since; the cache will show that.
      if (message === undefined) return lookAgainMs;
      if (!(await this.#tell(addressee, message, signal))) return lookAgainMs;
      this.forget(addressee.conversation.metadata.namespace, addressee.conversation.metadata.name);
    }
    return 1;
  }

  /** Whether the message is done with. */
  async #tell(addressee: Addressee, message: LaterMessage, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options;
    const sending = await this.#next(addressee, message, signal);
    if (sending === 'stored') {
      addressee.status = withTold(addressee.status, message, { started: false, now: isoTime(clock) });
      return true;
    }
    if (sending === undefined) return false;
    if (sending.attempt > mostAttempts) {
      this.#refuse(addressee, message, `The agent did not take message ${message.number}.`);
      return true;
    }
    const began = clock.monotonic();
    addressee.status = withSending(addressee.status, sending);
    await addressee.store();
    // Frozen, or the API server was slow: by now somebody else may have found the mark and be about to send it.
    if (clock.monotonic() - began > markIsFreshMs || signal.aborted) return false;
    return this.#send(addressee, message, signal);
  }

  /** The mark to send it with; `stored`: the agent has it already; undefined: it may still come. */
  async #next(addressee: Addressee, message: LaterMessage, signal: AbortSignal): Promise<Sending | 'stored' | undefined> {
    const { agent, clock } = this.#options;
    const { status, endpoint, id, container } = addressee;
    const mark = { number: message.number, time: isoTime(clock), ...(container === undefined ? {} : { container }) };
    const sent = status.messages?.inFlight;
    if (sent?.number !== message.number) {
      const [last] = await agent.userMessages(endpoint, id, 1, { signal });
      return { ...mark, attempt: 1, ...(last === undefined ? {} : { after: { id: last.id, timestamp: last.timestamp } }) };
    }
    // When it had not come until now. Looked at in this order, a run that ends in between does no harm.
    const doubt = this.#doubt(addressee, sent);
    if (isStored(message, await agent.userMessagesAfter(endpoint, id, sent.after, { signal }))) return 'stored';
    if (!isLost(doubt, container, clock.monotonic())) return undefined;
    return { ...sent, ...mark, attempt: sent.attempt + 1 };
  }

  #doubt({ conversation, container, state }: Addressee, sending: Sending): Doubt {
    const { namespace, name, uid } = conversation.metadata;
    const key = `${namespace}/${name}`;
    const now = this.#options.clock.monotonic();
    const doubt = doubtOf(this.#doubts.get(key), { uid, sending, container, runs: state.executionStatus === 'running', now });
    this.#doubts.set(key, doubt);
    return doubt;
  }

  async #send(addressee: Addressee, message: LaterMessage, signal: AbortSignal): Promise<boolean> {
    const { agent, clock, logger } = this.#options;
    const { endpoint, id, conversation } = addressee;
    const patience = abortedAfter(clock, patienceMs, signal);
    try {
      const { role, content, run } = message;
      // To an agent that waits for a confirmation it would be one: the pending step would be taken.
      const held = addressee.state.executionStatus === 'waiting_for_confirmation';
      const { started } = await agent.sendMessage(endpoint, id, { role, content, run: run && !held }, { signal: patience.signal });
      addressee.status = withTold(addressee.status, message, { started, now: isoTime(clock), was: addressee.state.executionStatus });
      return true;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      logger.debug('message not confirmed', { conversation: conversation.metadata.name, number: message.number, code: error.code });
      if (error.code === 'refused') {
        this.#refuse(addressee, message, `The agent refused message ${message.number}.`);
        return true;
      }
      if (error.outcomeUnknown) return false;
      addressee.status = withNothingSent(addressee.status);
      throw error;
    } finally {
      patience.cancel();
    }
  }

  #refuse(addressee: Addressee, message: LaterMessage, text: string): void {
    addressee.status = withRefused(addressee.status, message);
    // Not what the agent says of it: that may repeat what it was told.
    this.#options.events.record(addressee.conversation, { type: 'Warning', reason: 'MessageRefused', message: text });
  }
}
