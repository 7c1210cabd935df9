import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Logger } from '@conversation-operator/base/logger';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Stores } from '../caches.ts';
import type { AgentConversation, AgentClient } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/kinds.ts';
import { AgentError } from '../../agent/errors.ts';
import type { NamedSecret } from '../../agent/redaction.ts';
import { keepsQuestions } from '../../agent/kinds.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { NewestStore } from '@conversation-operator/kube/newest-store';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations, isStartOver, type Conversation } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { type Sandbox, sandboxes } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { resumeForAnswer, Approvals } from './approvals/approvals.ts';
import {
  hasInvalidAnswer,
  withoutEarlierAnswer,
  withQuestionWithdrawn,
  withRecordedAnswer,
  withRunBegun,
} from './approvals/decide.ts';
import type { AgentConfigurations } from './agent-configuration.ts';
import type { OwnerSettingsReader } from './owner-settings.ts';
import {
  KeyRotation,
  interruptStuckRun,
  resumeRun,
  StuckDetection,
} from './execution/run-control.ts';
import { withoutEarlierResult, withRunResult } from './execution/run-result.ts';
import { RunObserver, runKey, type PolledRun } from './execution/run-observer.ts';
import { withRunUnknown, withSandboxAway } from './execution/sandbox-away.ts';
import { Delivery, requestPendingRun } from './messages/delivery.ts';
import type { ConversationPoller, Poll } from './polling/conversation-poller.ts';
import { requestKey } from '../controller-spec.ts';
import { Scope, type SaveStatus } from './scope.ts';
import { releaseSandbox, releaseUnusedClaims } from './start/sandbox-release.ts';
import type { Start } from './start/start.ts';
import { withTransition } from './start/start-status.ts';
import type { StatusCoalescer, StatusWriter } from './status-writer.ts';
import { storedConversation, storedObject } from '../stored-object.ts';
import type { Store } from '@conversation-operator/kube/store';
import type { ConversationStatus } from '../../resources/conversation-status.ts';

export interface SandboxAccess {
  readonly client: KubeClient;
  readonly store: Pick<Store<Sandbox>, 'get'>;
}

/** A sandbox that was deleted never returns. A cache that still shows such a sandbox is behind. */
const isSandboxGone = ({ sandboxStatus, sandboxUID }: ConversationStatus): boolean =>
  sandboxStatus === 'MISSING' && sandboxUID !== undefined;

/**
 * Returns the sandbox that the status names; undefined when that sandbox is gone or another sandbox
 * has its name. The cache may be behind, so the API server confirms that a sandbox is gone.
 */
export async function findSandbox(
  { client, store }: SandboxAccess,
  namespace: string,
  status: ConversationStatus,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const { sandboxName: name, sandboxUID: uid } = status;
  if (name === undefined || isSandboxGone(status)) return undefined;
  const cached = store.get(namespace, name);
  if (cached !== undefined && (uid === undefined || cached.metadata.uid === uid)) return cached;
  return storedObject(
    client,
    sandboxes,
    { metadata: { namespace, name, ...(uid === undefined ? {} : { uid }) } },
    signal,
  );
}

/**
 * Copies phase and reason of the sandbox to the status. The cache is read again, because a call to
 * the agent may have taken minutes.
 */
function withSandboxStatus(
  status: ConversationStatus,
  namespace: string,
  sandbox: Sandbox | undefined,
  store: Store<Sandbox>,
): ConversationStatus {
  const { start, sandboxName, sandboxUID } = status;
  // The sandbox of a failed start is deleted, or belongs to another conversation.
  if (start?.status === 'ERROR')
    return {
      ...status,
      sandboxStatus: 'ERROR',
      sandboxStatusReason: start.errorCode ?? 'StartFailed',
    };
  if (sandboxName === undefined) return { ...status, sandboxStatus: 'STARTING' };
  if (isSandboxGone(status)) return status;
  const cached = store.get(namespace, sandboxName);
  const isSame =
    cached !== undefined && cached.metadata.uid === (sandboxUID ?? cached.metadata.uid);
  const { phase, reason } = viewOfSandbox(isSame ? cached : sandbox);
  return { ...status, sandboxStatus: phase, sandboxStatusReason: reason };
}

export interface ConversationReconcilerOptions {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly agent: AgentClient;
  readonly configurations: AgentConfigurations;
  readonly ownerSettings: Pick<OwnerSettingsReader, 'secretsOf'>;
  readonly start: Start;
  readonly poller: ConversationPoller;
  readonly writer: StatusWriter;
  readonly coalescer: StatusCoalescer;
  readonly unresponsiveAgents: UnresponsiveAgents;
  /** Called once for a sandbox whose agent is unresponsive. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
}

/** Delay before a sandbox that the cache lacks is read again. */
const uncachedMs = 5_000;

/** Conversation after its start, with the answer of its agent to a poll. */
interface PolledConversation extends PolledRun {
  readonly poll: Poll;
  readonly state: AgentConversation;
  readonly secrets: () => Promise<readonly NamedSecret[]>;
}

/**
 * Takes conversations through their start, and then keeps their status up to date with sandbox and
 * agent.
 */
export class ConversationReconciler {
  readonly #options: ConversationReconcilerOptions;
  readonly #newest: NewestStore<CachedConversation>;
  readonly #stuck: StuckDetection;
  readonly #observer: RunObserver;
  readonly #keyRotation: KeyRotation;
  readonly #delivery: Delivery;
  readonly #approvals: Approvals;
  /** With the sandboxes that starts have created and that the cache does not show yet. */
  readonly #sandboxes: NewestStore<Sandbox>;

  constructor(options: ConversationReconcilerOptions) {
    const { client, agent, clock, logger, events, stores, configurations } = options;
    this.#options = options;
    this.#newest = new NewestStore(stores.conversations, clock);
    this.#sandboxes = new NewestStore(stores.sandboxes, clock);
    this.#stuck = new StuckDetection({ clock });
    this.#observer = new RunObserver({ client, agent, clock, stuck: this.#stuck });
    this.#keyRotation = new KeyRotation({ agent, configurations });
    this.#delivery = new Delivery({ agent, clock, logger, events });
    this.#approvals = new Approvals({ agent, clock, logger });
  }

  /**
   * Takes a notification about a conversation. Returns the milliseconds until the poll; undefined
   * when the conversation is not polled.
   */
  notify(request: Request): number | undefined {
    return this.#options.poller.notify(request);
  }

  async reconcile(request: Request, signal: AbortSignal): Promise<Result> {
    const { namespace, name } = request;
    const conversation = this.#newest.get(namespace, name);
    if (conversation === undefined || conversation.metadata.deletionTimestamp !== undefined) {
      this.#delivery.forget(namespace, name);
      this.#forgetPolls(request);
      this.#keyRotation.forget(namespace, name);
      return undefined;
    }
    const scope = new Scope(conversation);
    const save: SaveStatus = async (status) => {
      scope.status = status;
      await this.#write(scope, signal);
      return scope.status;
    };
    const againAfterMs = await this.#advance(scope, save, signal);
    await this.#write(scope, signal);
    // The sandbox is released after the failure is stored, so that a process that ends in between
    // releases the sandbox later.
    if (scope.startStatus === 'ERROR') await releaseSandbox(this.#options, scope.stored, signal);
    await releaseUnusedClaims(this.#options, scope.stored, signal);
    const { sandbox } = scope;
    // The deletion of a sandbox that no watch has seen yet causes no event.
    const cached = sandbox && this.#options.stores.sandboxes.get(namespace, sandbox.metadata.name);
    if (!isStartOver(scope.startStatus)) this.#sandboxes.created(sandbox);
    const isCached = sandbox === undefined || cached !== undefined;
    const nextMs = this.#nextPollMs(scope, conversation, againAfterMs);
    const requeueAfterMs = isCached ? nextMs : Math.min(nextMs, uncachedMs);
    return requeueAfterMs === Infinity ? undefined : { requeueAfterMs };
  }

  /**
   * Reads a conversation again after a conflict, because the cache was behind the version that the
   * API server has.
   */
  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(conversations, namespace, name, { signal });
    if (conversations.accepts?.(stored) !== false) this.#newest.observe(cachedConversation(stored));
  }

  /**
   * Runs the steps that are due. Returns the milliseconds until the next reconcile, or until a step
   * that follows a poll is repeated.
   */
  async #advance(scope: Scope, save: SaveStatus, signal: AbortSignal): Promise<number | undefined> {
    const { client, clock } = this.#options;
    if (scope.status.start === undefined)
      scope.status = withTransition(scope.status, 'WORKING', isoTime(clock));
    if (scope.startStatus === 'ERROR') return undefined;
    const { namespace } = scope.stored.metadata;
    scope.sandbox = await findSandbox(
      { client, store: this.#sandboxes },
      namespace,
      scope.status,
      signal,
    );
    if (!isStartOver(scope.startStatus)) return this.#options.start.advance(scope, save, signal);
    await this.#recordAnswer(scope, signal);
    const polled = await this.#poll(scope, signal);
    return typeof polled === 'object' ? this.#follow(scope, polled, save, signal) : polled;
  }

  /**
   * Records the answer to the agent's question, before anything else follows from it, and resumes a
   * paused sandbox for it.
   */
  async #recordAnswer(scope: Scope, signal: AbortSignal): Promise<void> {
    const { events } = this.#options;
    const { spec, metadata } = scope.stored;
    if (
      scope.status.observedGeneration !== metadata.generation &&
      hasInvalidAnswer({ spec, status: scope.status })
    )
      events.record(scope.stored, {
        type: 'Warning',
        reason: 'ApprovalAnswerRefused',
        message: `The answer to the question ${scope.status.approval?.id ?? ''} names no option of the question, or approves calls that can't be read whole. Remove it from spec.approvals and answer again.`,
      });
    scope.status = withRecordedAnswer(scope.status, spec);
    scope.status = await resumeForAnswer(this.#options, scope, signal);
  }

  /**
   * Polls the agent of a started conversation. Returns the milliseconds until the next reconcile
   * when there is no report.
   */
  async #poll(scope: Scope, signal: AbortSignal): Promise<PolledConversation | number | undefined> {
    const { clock, keys, unresponsiveAgents } = this.#options;
    const { stored, sandbox } = scope;
    const view = viewOfSandbox(sandbox);
    const id = conversationIdOf(stored);
    if (view.phase !== 'RUNNING' || sandbox === undefined) {
      this.#forgetPolls(stored.metadata);
      if (scope.status.sandboxUID !== undefined) unresponsiveAgents.forget(scope.status.sandboxUID);
      scope.status = withSandboxAway(scope.status, id, sandbox, view, isoTime(clock));
      if (view.phase === 'MISSING')
        scope.status = withQuestionWithdrawn(scope.status, isoTime(clock), 'the sandbox is gone');
      return undefined;
    }
    const endpoint = agentEndpointOf(sandbox, keys);
    if (endpoint === undefined) return undefined;
    const poll = await this.#options.poller.poll(stored, sandbox, endpoint, signal);
    if ('laterMs' in poll) {
      const { laterMs, error, isUnresponsive } = poll;
      if (isUnresponsive && unresponsiveAgents.recordFailure(sandbox.metadata.uid))
        this.#options.onUnresponsive(sandbox);
      if (!isUnresponsive && error !== undefined) await this.#malformed(scope, sandbox, error);
      return laterMs;
    }
    unresponsiveAgents.forget(sandbox.metadata.uid);
    scope.poll = poll;
    const { state } = poll;
    if (state !== undefined)
      return {
        poll,
        state,
        sandbox,
        endpoint,
        id,
        shown: (text, maxLength) => this.#options.configurations.shown(text, stored, maxLength),
        secrets: async () => [
          ...(await this.#options.configurations.secretsOf(stored)),
          ...(await this.#options.ownerSettings.secretsOf(stored, signal)),
        ],
      };
    scope.status = {
      ...withQuestionWithdrawn(scope.status, isoTime(clock), 'the agent has lost the conversation'),
      executionStatus: 'error',
      executionDetail: 'The agent no longer knows the conversation.',
    };
    return undefined;
  }

  /**
   * After a report, in order: observes the run, rotates the key, resumes or interrupts the run,
   * takes the question of the agent or gives an answer, and delivers messages.
   */
  async #follow(
    scope: Scope,
    polled: PolledConversation,
    save: SaveStatus,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    try {
      const runMs = await this.#followRun(scope, polled, save, signal);
      this.#options.poller.recordUnderstood(scope.stored.metadata);
      const approvalMs = await this.#followApproval(scope, polled, save, signal);
      await this.#requestRun(scope, polled, signal);
      const messagesMs = await this.#deliver(scope, polled, save, signal);
      const pendingMs = await this.#requestRun(scope, polled, signal);
      const due = [runMs, approvalMs, messagesMs, pendingMs].filter((ms) => ms !== undefined);
      return due.length === 0 ? undefined : Math.min(...due);
    } catch (error) {
      if (!(error instanceof AgentError) || signal.aborted) throw error;
      this.#options.logger.debug('agent call failed', {
        conversation: scope.stored.metadata.name,
        code: error.code,
        error,
      });
      scope.poll = undefined;
      return this.#options.poller.recordFailure(polled.poll, error);
    }
  }

  async #followRun(
    scope: Scope,
    polled: PolledConversation,
    save: SaveStatus,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { state, sandbox, endpoint } = polled;
    const before = scope.status;
    const observation = await this.#observe(scope, polled, signal);
    if (observation.againAfterMs !== undefined) return observation.againAfterMs;
    scope.status = observation.resume
      ? observation.status
      : await withRunResult(this.#options, polled, { before, status: observation.status }, signal);
    await this.#keyRotation.rotate(
      { ...scope.stored, status: scope.status },
      state,
      endpoint,
      signal,
    );
    const { agent, clock, logger } = this.#options;
    const options = { agent, clock, logger, stuck: this.#stuck };
    if (observation.resume) {
      const resumed = await resumeRun(options, polled, { status: scope.status, save, signal });
      scope.status = resumed.status;
      return resumed.againAfterMs;
    }
    const template = this.#options.stores.templates.get(
      sandbox.metadata.namespace,
      sandbox.spec.templateName,
    );
    const run = { ...polled, stuckAfter: template?.spec.agent.stuckAfter };
    scope.status = await interruptStuckRun(options, run, { status: scope.status, save, signal });
    return undefined;
  }

  async #observe(scope: Scope, polled: PolledConversation, signal: AbortSignal) {
    try {
      return await this.#observer.observe(polled, scope.status, polled.state, signal);
    } catch (error) {
      // A report without the cause of an error counts as a report that the operator can not read.
      if (error instanceof AgentError) await this.#malformed(scope, polled.sandbox, error);
      throw error;
    }
  }

  async #followApproval(
    scope: Scope,
    polled: PolledConversation,
    save: SaveStatus,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { status: container = {} } = polled.sandbox;
    const asker = {
      ...{ ...polled, key: runKey(polled), agentEpoch: container.agentEpoch ?? 0 },
      keepsQuestions: keepsQuestions(container, polled.state),
      ...{ spec: scope.stored.spec, save },
    };
    const { status, againAfterMs } = await this.#approvals.follow(asker, scope.status, signal);
    scope.status = status;
    return againAfterMs;
  }

  /** Marks the run as unknown once the operator could not read the reports for too long. */
  async #malformed(scope: Scope, sandbox: Sandbox, error: AgentError): Promise<void> {
    if (!this.#options.poller.recordMalformed(scope.stored.metadata)) return;
    const why = await this.#options.configurations.shown(error.message, scope.stored);
    scope.status = withRunUnknown(scope.status, sandbox, why, isoTime(this.#options.clock));
  }

  /** Requests the run of a delivered message. A failure of a later message does not delay it. */
  async #requestRun(
    scope: Scope,
    polled: PolledConversation,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const requested = await requestPendingRun(this.#options, polled, scope.status, signal);
    scope.status = requested.status;
    return requested.againAfterMs;
  }

  async #deliver(
    scope: Scope,
    polled: PolledConversation,
    save: SaveStatus,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { stored: conversation } = scope;
    const before = scope.status.messages?.lastDelivered;
    const container = polled.sandbox.status?.containerID;
    let read: Promise<Conversation | undefined> | undefined;
    const message = async (number: number) => {
      const stored = await (read ??= storedConversation(
        this.#options.client,
        conversation,
        signal,
      ));
      return stored?.spec.messages?.find((each) => each.number === number);
    };
    const delivered = await this.#delivery.deliver(
      { ...polled, conversation, container, message, save },
      scope.status,
      signal,
    );
    const isNew = delivered.status.messages?.lastDelivered !== before;
    const isLost = polled.state.executionStatus !== 'waiting_for_confirmation';
    scope.status =
      isNew && isLost
        ? withoutEarlierAnswer(delivered.status, isoTime(this.#options.clock))
        : delivered.status;
    if (delivered.error !== undefined) throw delivered.error;
    return delivered.againAfterMs;
  }

  /**
   * Writes the status if it differs, with phase and reason of the sandbox; afterwards `stored` is
   * the version of the API server.
   */
  async #write(scope: Scope, signal: AbortSignal): Promise<void> {
    const { sandbox, status, stored } = scope;
    const next = withSandboxStatus(
      withoutEarlierResult(withRunBegun(stored.status, status)),
      stored.metadata.namespace,
      sandbox,
      this.#options.stores.sandboxes,
    );
    const written = await this.#options.writer.write(
      stored,
      { next, isPolled: scope.poll !== undefined },
      signal,
    );
    scope.status = next;
    if (written === undefined) return;
    Object.assign(scope, written);
    this.#newest.observe(written.stored);
  }

  /**
   * Records a poll whose outcome is stored. Returns the milliseconds until the next one, or until
   * the next reconcile without a poll; Infinity: none.
   */
  #nextPollMs(
    { poll, status }: Scope,
    conversation: CachedConversation,
    againAfterMs: number | undefined,
  ): number {
    const withheldMs = this.#options.coalescer.waitMs(requestKey(conversation.metadata));
    const nextMs = Math.min(againAfterMs ?? Infinity, withheldMs);
    if (poll === undefined) return nextMs;
    const change = { before: conversation.status ?? {}, status, againAfterMs: nextMs };
    return this.#options.poller.recordPoll(poll, conversation, change);
  }

  #forgetPolls(request: Request): void {
    this.#options.poller.forget(request);
    this.#options.coalescer.forget(requestKey(request));
  }
}
