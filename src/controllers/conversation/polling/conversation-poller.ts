import type { Clock } from '@conversation-operator/base/clock';
import type { Stores } from '../../caches.ts';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { agentEndpointOf } from '../../../agent/kinds.ts';
import type { SandboxKeys } from '../../../agent/keys.ts';
import type { AgentError } from '../../../agent/errors.ts';
import type { Request } from '@conversation-operator/kube/controller';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import { durationMs } from '../../../resources/sandbox-template.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { PollBulkhead, type Unanswered } from '../../agent-calls/poll-bulkhead.ts';
import { UnresponsiveAgents } from '../../agent-calls/unresponsive-agents.ts';
import { ownerShare, requestKey } from '../../controller-spec.ts';
import { AgentPoller, type AgentTarget } from './agent-poller.ts';
import { maxForIdleTimeout, PollSchedule } from './poll-schedule.ts';

export interface ConversationPollerOptions {
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly agent: Pick<AgentClient, 'conversation' | 'conversations'>;
  readonly keys: SandboxKeys;
  readonly stores: Pick<Stores, 'templates'>;
  readonly unresponsiveAgents: UnresponsiveAgents;
  /** Called once for a sandbox whose agent has not answered any call for a minute. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
  /** Maximum time between two polls in milliseconds, for agents that send no webhooks. */
  readonly maxPollMs?: number | undefined;
  readonly onReport?:
    ((conversation: CachedConversation, state: AgentConversation) => void) | undefined;
}

/** An answered poll of a conversation. The caller records the poll after it stores the outcome. */
export interface Poll {
  readonly target: AgentTarget;
  readonly beganAt: number;
  readonly subject: string;
  readonly sandbox: Sandbox;
  readonly state: AgentConversation | undefined;
}

export interface UnansweredPoll extends Unanswered {
  readonly isUnresponsive: boolean;
}

/**
 * Versions of the conversation's spec and of its sandbox, and the time of a call that a budget has
 * refused. A change makes the next poll due.
 */
const subjectOf = ({ metadata, status }: CachedConversation, sandbox: Sandbox): string =>
  [
    metadata.uid,
    metadata.generation,
    sandbox.metadata.uid,
    sandbox.metadata.resourceVersion,
    status?.budgetExhaustion?.time,
  ].join('/');

const targetOf = (sandbox: Sandbox, endpoint: AgentEndpoint): AgentTarget => ({
  endpoint,
  owner: ownerShare(sandbox),
  agent: [
    sandbox.metadata.uid,
    sandbox.status?.containerID,
    sandbox.status?.agentEpoch,
    endpoint.baseUrl,
  ].join('/'),
});

/** Decides when to poll the agent of a conversation. All state is in memory and may be lost. */
export class ConversationPoller {
  readonly #options: ConversationPollerOptions;
  readonly #bulkhead: PollBulkhead;
  readonly #agents: AgentPoller;
  readonly #schedule: PollSchedule;
  readonly #malformed: UnresponsiveAgents;
  readonly #lastAgents = new Map<string, string>();

  constructor(options: ConversationPollerOptions) {
    const { agent, clock, random } = options;
    this.#options = options;
    this.#bulkhead = new PollBulkhead({ clock, random });
    this.#agents = new AgentPoller({ agent, clock, bulkhead: this.#bulkhead });
    this.#schedule = new PollSchedule({ clock });
    this.#malformed = new UnresponsiveAgents({ clock });
  }

  /**
   * Handles a notification about a conversation. Returns the milliseconds until the poll; undefined
   * when the conversation is not polled.
   */
  notify(request: Request): number | undefined {
    const key = requestKey(request);
    const waitMs = this.#schedule.notify(key);
    const agent = this.#lastAgents.get(key);
    // An agent that has just sent a webhook is likely to answer, so its back-off ends.
    if (waitMs === 0 && agent !== undefined) this.#bulkhead.retryNow(agent);
    return waitMs;
  }

  /**
   * Stops the polls of a conversation until the next call of `poll`. With the UID of a sandbox that
   * is not running, also forgets the unanswered calls to its agent.
   */
  forget(request: Request, sandboxUid?: string): void {
    const key = requestKey(request);
    if (sandboxUid !== undefined) this.#options.unresponsiveAgents.forget(sandboxUid);
    this.#schedule.forget(key);
    this.#malformed.forget(key);
    this.#lastAgents.delete(key);
  }

  /**
   * Polls a conversation if the poll is due; undefined when the agent has no address. Throws errors
   * other than `AgentError`, and when the signal is aborted.
   */
  async poll(
    conversation: CachedConversation,
    sandbox: Sandbox,
    signal: AbortSignal,
  ): Promise<Poll | UnansweredPoll | undefined> {
    const { keys, unresponsiveAgents, onUnresponsive, onReport } = this.#options;
    const endpoint = agentEndpointOf(sandbox, keys);
    if (endpoint === undefined) return undefined;
    const key = requestKey(conversation.metadata);
    const subject = subjectOf(conversation, sandbox);
    const target = targetOf(sandbox, endpoint);
    const { uid } = sandbox.metadata;
    const laterMs = this.#schedule.waitMs(key, subject);
    if (laterMs <= 0) this.#lastAgents.set(key, target.agent);
    const polled =
      laterMs > 0
        ? { laterMs }
        : await this.#agents.poll(target, conversationIdOf(conversation), signal);
    if ('laterMs' in polled) {
      const isUnresponsive = this.#bulkhead.isUnresponsive(target.agent);
      if (isUnresponsive && unresponsiveAgents.recordFailure(uid)) onUnresponsive(sandbox);
      return { ...polled, isUnresponsive };
    }
    unresponsiveAgents.forget(uid);
    const { answer: state, beganAt } = polled;
    if (state !== undefined) onReport?.(conversation, state);
    return { target, beganAt, subject, sandbox, state };
  }

  /** Records a malformed report. Returns whether such reports have lasted for too long. */
  recordMalformed(request: Request): boolean {
    const key = requestKey(request);
    this.#malformed.recordFailure(key);
    return this.#malformed.isUnresponsive(key);
  }

  recordUnderstood(request: Request): void {
    this.#malformed.forget(requestKey(request));
  }

  /** Records a failed call after an answered poll. Returns the milliseconds until the next poll. */
  recordFailure({ target }: Poll, error: AgentError): number {
    return this.#bulkhead.recordFailure(target.agent, error);
  }

  /** Records a poll whose outcome is stored. Returns the milliseconds until the next one. */
  recordPoll(
    poll: Poll,
    conversation: CachedConversation,
    change: {
      readonly before: ConversationStatus;
      readonly status: ConversationStatus;
      readonly againAfterMs: number | undefined;
    },
  ): number {
    const { stores, maxPollMs = Infinity } = this.#options;
    const { metadata, spec } = poll.sandbox;
    const idleTimeout = stores.templates.get(metadata.namespace, spec.templateName)?.spec
      .idleTimeout;
    const { before, status, againAfterMs } = change;
    const notifiable = before.executionStatus !== status.executionStatus;
    return this.#schedule.record(requestKey(conversation.metadata), {
      beganAt: poll.beganAt,
      subject: poll.subject,
      sandboxUid: metadata.uid,
      agent: poll.target.agent,
      status,
      againAfterMs,
      isRunning: poll.state?.executionStatus === 'running',
      changed: notifiable || before.title !== status.title,
      notifiable,
      maxMs: Math.min(
        maxPollMs,
        maxForIdleTimeout(idleTimeout === undefined ? undefined : durationMs(idleTimeout)) ??
          Infinity,
      ),
    });
  }
}
