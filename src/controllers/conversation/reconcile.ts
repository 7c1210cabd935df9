import { isDeepStrictEqual } from 'node:util';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import { AgentError } from '../../agent/errors.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/kube/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import type { EventRecorder } from '@conversation-operator/kube/events';
import { NewestStore } from '@conversation-operator/kube/newest-store';
import type { Store } from '@conversation-operator/kube/store';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import { cachedConversation, type CachedConversation } from '../../resources/cached-conversation.ts';
import {
  conversations,
  isStartOver,
  startStatusOf,
  type Conversation,
  type ConversationStatus,
  type StartStatus,
} from '../../resources/conversation.ts';
import { lacksFinishedCondition, withProjection } from '../../resources/conversation-projection.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { AgentSilence } from '../agent-silence.ts';
import { AgentConfigurations } from './agent-configuration.ts';
import { Delivery } from './delivery.ts';
import { withRunAsked } from './continuation.ts';
import { withRunUnknown, withSandboxAway } from './execution.ts';
import { KeyRotation } from './key-rotation.ts';
import { runOf, withFirstMessage, withoutRunPending } from './messages.ts';
import { StartPipeline } from './pipeline.ts';
import type { PreparationLimits } from './preparation-failures.ts';
import type { GitHosts } from './repository.ts';
import { noticeOfRun } from './run-notices.ts';
import { Runs } from './runs.ts';
import { findSandbox } from './sandbox-of.ts';
import { releaseSandbox } from './sandbox-release.ts';
import { Scope } from './scope.ts';
import { StatusWatch } from './status-watch.ts';
import { storedConversation } from './stored-conversation.ts';
import { StartFailure, restMs, stageMs, withFailure, withTransition } from './start.ts';
import { StartSteps } from './start-steps.ts';

export interface ConversationReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: {
    readonly conversations: Store<CachedConversation>;
    readonly sandboxes: Store<Sandbox>;
    readonly templates: Store<SandboxTemplate>;
  };
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  readonly gitHosts: GitHosts;
  /** Where the sandboxes of a namespace reach the gateway's agent side; absent: they don't. */
  readonly agentSide?: { readonly url: string; readonly namespace: string } | undefined;
  /** What differs from the defaults: 10 min for a clone and for the set-up script each, 10 GiB for a repository. */
  readonly preparation?: Partial<PreparationLimits> | undefined;
  readonly credentials: AgentCredentials;
  /** Why a start can't be accepted beside what is stored; default: none is refused. */
  readonly refusalOf?: ((conversation: CachedConversation) => { readonly code: string; readonly message: string } | undefined) | undefined;
  readonly events: Pick<EventRecorder, 'record'>;
  /** See `StatusWatchOptions`. */
  readonly mostPollMs?: number | undefined;
  readonly silence: AgentSilence;
  /** Its agent has not answered for too long. */
  readonly onSilent: (sandbox: Sandbox) => void;
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

const defaultLimits: PreparationLimits = { cloneTimeoutSeconds: 600, setupTimeoutSeconds: 600, maxRepositoryMebibytes: 10_240 };
/** Between two attempts to have something begun that the agent could not begin with yet. */
const beginMs = 1_000;
/** Between two looks for a sandbox that no cache shows. */
const unwatchedMs = 5_000;

/** What is gone stays so: a cache that shows it is behind. */
const isSandboxGone = ({ sandboxStatus, sandboxUID }: ConversationStatus): boolean =>
  sandboxStatus === 'MISSING' && sandboxUID !== undefined;

/** Takes a conversation through its start, then keeps its status what sandbox and agent are. */
export class ConversationReconciler {
  readonly #options: ConversationReconcilerOptions;
  readonly #configurations: AgentConfigurations;
  readonly #keyRotation: KeyRotation;
  readonly #start: StartSteps;
  readonly #delivery: Delivery;
  readonly #runs: Runs;
  readonly #watch: StatusWatch;
  readonly #newest: NewestStore<CachedConversation>;

  constructor(options: ConversationReconcilerOptions) {
    this.#options = options;
    this.#newest = new NewestStore(options.stores.conversations);
    const { agent, gitHosts } = options;
    const configurations = new AgentConfigurations(options);
    this.#configurations = configurations;
    this.#keyRotation = new KeyRotation({ agent, configurations });
    this.#start = new StartSteps({
      ...options,
      configurations,
      pipeline: new StartPipeline({ ...defaultLimits, ...options.preparation, agent, gitHosts, configurations }),
      transition: (scope, next, detail) => this.#transition(scope, next, detail),
      begun: (scope, state, created) => {
        const agentEpoch = scope.sandbox?.status?.agentEpoch ?? 0;
        const now = isoTime(options.clock);
        scope.status = withFirstMessage(scope.status, scope.stored.spec.initialMessage, state, { created, agentEpoch, now });
      },
      answered: ({ sandbox }) => sandbox && options.silence.over(sandbox.metadata.uid),
      store: (scope, signal) => this.#store(scope, signal),
    });
    this.#delivery = new Delivery(options);
    this.#runs = new Runs(options);
    this.#watch = new StatusWatch(options);
  }

  /** Somebody says that the agent has something to tell. Milliseconds until it is asked; undefined: nobody asks it. */
  hint(request: Request): number | undefined {
    return this.#watch.hint(request);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const conversation = this.#newest.get(namespace, name);
    if (conversation === undefined || conversation.metadata.deletionTimestamp !== undefined) {
      this.#delivery.forget(namespace, name);
      this.#watch.forget({ namespace, name });
      this.#keyRotation.forget(namespace, name);
      return undefined;
    }
    const { clock } = this.#options;
    const beganAt = clock.monotonic();
    const scope = new Scope(conversation);
    let requeueAfterMs: number | undefined;
    try {
      requeueAfterMs = await this.#advance(scope, signal);
    } catch (error) {
      if (error instanceof StartFailure) {
        this.#fail(scope, error);
      } else if (error instanceof AgentError && !signal.aborted) {
        this.#options.logger.debug('agent call failed', { conversation: name, code: error.code, error });
        requeueAfterMs = scope.look === undefined ? this.#startFailed(scope, error, beganAt) : this.#watch.failed(scope.look, error);
        scope.look = undefined;
      } else {
        throw error;
      }
    }
    await this.#store(scope, signal);
    // After the reason is stored: whoever goes on after a crash finds it, and does this.
    if (scope.startStatus === 'ERROR') await releaseSandbox(this.#options, scope.stored, signal);
    const { look, status, againAfterMs } = scope;
    if (look !== undefined)
      requeueAfterMs = this.#watch.looked(look, conversation, { before: conversation.status ?? {}, status, againAfterMs });
    if (this.#isUnwatched(scope)) requeueAfterMs = Math.min(requeueAfterMs ?? unwatchedMs, unwatchedMs);
    return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  }

  /** A call of a start has failed. One that is not answered for too long is the sandbox's trouble, and no worker waits for it then. */
  #startFailed(scope: Scope, error: AgentError, beganAt: number): number {
    const { clock, silence, onSilent } = this.#options;
    const { sandbox } = scope;
    const isUnanswered = error.status === undefined && error.code !== 'malformed';
    if (sandbox !== undefined && isUnanswered && silence.failed(sandbox.metadata.uid)) onSilent(sandbox);
    return restMs(clock.monotonic() - beganAt);
  }

  /** A write of the conversation has met another version than the one that was decided on. */
  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(conversations, namespace, name, { signal });
    if (conversations.accepts?.(stored) !== false) this.#newest.observe(cachedConversation(stored));
  }

  /** Its sandbox is known from the API server, and not yet to the cache: one that goes before the watch has seen it is never heard of. */
  #isUnwatched({ sandbox }: Scope): boolean {
    return sandbox !== undefined && this.#options.stores.sandboxes.get(sandbox.metadata.namespace, sandbox.metadata.name) === undefined;
  }

  async #advance(scope: Scope, signal: AbortSignal): Promise<number | undefined> {
    const { namespace } = scope.stored.metadata;
    if (scope.status.start === undefined) this.#transition(scope, 'WORKING');
    if (scope.startStatus === 'ERROR') return undefined;
    const { sandboxName } = scope.status;
    if (sandboxName !== undefined && !isSandboxGone(scope.status)) {
      const access = { client: this.#options.client, store: this.#options.stores.sandboxes };
      scope.sandbox = await findSandbox(access, namespace, { ...scope.status, sandboxName }, signal);
    }
    return isStartOver(scope.startStatus) ? this.#follow(scope, signal) : this.#start.advance(scope, signal);
  }

  /** After the start: what the agent does, as long as there is one to ask. */
  async #follow(scope: Scope, signal: AbortSignal): Promise<number | undefined> {
    const { stores, clock, keys } = this.#options;
    const view = viewOfSandbox(scope.sandbox);
    const id = conversationIdOf(scope.stored);
    if (view.phase !== 'RUNNING' || scope.sandbox === undefined) {
      this.#watch.forget(scope.stored.metadata);
      if (scope.status.sandboxUID !== undefined) this.#options.silence.over(scope.status.sandboxUID);
      scope.status = withSandboxAway(scope.status, id, scope.sandbox, view, isoTime(clock));
      return undefined;
    }
    const endpoint = agentEndpointOf(scope.sandbox, keys);
    if (endpoint === undefined) return undefined;
    const look = await this.#watch.look(scope.stored, scope.sandbox, endpoint, signal);
    if ('laterMs' in look) {
      const silent = this.#watch.isSilent(scope.sandbox, endpoint);
      if (silent && this.#options.silence.failed(scope.sandbox.metadata.uid)) this.#options.onSilent(scope.sandbox);
      if (!silent && look.error !== undefined) await this.#notUnderstood(scope, scope.sandbox, look.error);
      return look.laterMs;
    }
    this.#options.silence.over(scope.sandbox.metadata.uid);
    scope.look = look;
    const { state } = look;
    if (state === undefined) {
      scope.status = { ...scope.status, executionStatus: 'error', executionDetail: 'The agent does not know this conversation any more.' };
      return undefined;
    }
    const { sandbox } = scope;
    const runScope = {
      get status() {
        return scope.status;
      },
      set status(status) {
        scope.status = status;
      },
      ...{ sandbox, endpoint, id, template: stores.templates.get(sandbox.metadata.namespace, sandbox.spec.templateName) },
      store: () => this.#store(scope, signal),
      shown: (text: string) => this.#configurations.shown(text, scope.stored),
      beforeItGoesOn: () => this.#keyRotation.look({ ...scope.stored, status: scope.status }, state, endpoint, signal),
    };
    const before = scope.status;
    let soon: number | undefined;
    try {
      soon = await this.#runs.follow(runScope, state, signal);
    } catch (error) {
      // Half of what it says is as good as nothing.
      if (error instanceof AgentError && scope.status === before) await this.#notUnderstood(scope, sandbox, error);
      throw error;
    }
    this.#watch.understood(scope.stored.metadata);
    const again = await this.#talk(scope, state, endpoint, signal);
    scope.againAfterMs = soon === undefined ? again : Math.min(soon, again ?? soon);
    return undefined;
  }

  /** Once that has lasted, a run is not said to go on any more. */
  async #notUnderstood(scope: Scope, sandbox: Sandbox, error: AgentError): Promise<void> {
    if (!this.#watch.misunderstood(scope.stored.metadata)) return;
    const why = await this.#configurations.shown(error.message, scope.stored);
    scope.status = withRunUnknown(scope.status, sandbox, why, isoTime(this.#options.clock));
  }

  /** Tells the agent what has been sent to it since its first message. Returns when to look again; undefined: nothing is left. */
  async #talk(scope: Scope, state: AgentConversation, endpoint: AgentEndpoint, signal: AbortSignal): Promise<number | undefined> {
    const { agent, client, clock } = this.#options;
    const id = conversationIdOf(scope.stored);
    let read: Promise<Conversation | undefined> | undefined;
    const texts = () => (read ??= storedConversation(client, scope.stored, signal));
    const begin = runOf(scope.status, state, clock.now());
    if (begin === 'run') {
      await agent.run(endpoint, id, { signal });
      scope.status = withRunAsked(withoutRunPending(scope.status), isoTime(clock));
    } else if (begin === 'none') scope.status = withoutRunPending(scope.status);
    const again = await this.#delivery.deliver(
      {
        get conversation() {
          return scope.stored;
        },
        get status() {
          return scope.status;
        },
        set status(status) {
          scope.status = status;
        },
        ...{ endpoint, id, state, container: scope.sandbox?.status?.containerID },
        message: async (number) => (await texts())?.spec.messages?.find((message) => message.number === number),
        store: () => this.#store(scope, signal),
      },
      signal,
    );
    return again ?? (scope.status.messages?.runPending === true ? beginMs : undefined);
  }

  #mirrorSandbox(scope: Scope): void {
    if (scope.startStatus === 'ERROR') {
      // Its sandbox is given back, or is another conversation's.
      const { errorCode = 'StartFailed' } = scope.status.start ?? {};
      scope.status = { ...scope.status, sandboxStatus: 'ERROR', sandboxStatusReason: errorCode };
      return;
    }
    if (scope.status.sandboxName === undefined) {
      scope.status = { ...scope.status, sandboxStatus: 'STARTING' };
      return;
    }
    if (isSandboxGone(scope.status)) return;
    // A call to the agent may have taken minutes.
    const present = this.#options.stores.sandboxes.get(scope.stored.metadata.namespace, scope.status.sandboxName);
    const same = present !== undefined && present.metadata.uid === (scope.status.sandboxUID ?? present.metadata.uid);
    const { phase, reason } = viewOfSandbox(same ? present : scope.sandbox);
    scope.status = { ...scope.status, sandboxStatus: phase, sandboxStatusReason: reason };
  }

  #transition(scope: Scope, next: StartStatus, detail?: string): void {
    const { clock, metrics } = this.#options;
    metrics.startStageSeconds.observe({ stage: scope.startStatus }, stageMs(scope, clock.now()) / 1000);
    scope.status = withTransition(scope.status, next, isoTime(clock), detail);
  }

  #fail(scope: Scope, failure: StartFailure): void {
    scope.status = withFailure(scope.status, failure, isoTime(this.#options.clock));
  }

  /** Writes the status if it has changed; afterwards `stored` is what the server has. */
  async #store(scope: Scope, signal: AbortSignal): Promise<void> {
    const { client, clock, metrics, events, logger } = this.#options;
    // Also where calls to the agent follow that take their time.
    this.#mirrorSandbox(scope);
    const before = scope.stored;
    const { title } = before.spec;
    const { generation } = before.metadata;
    const current: ConversationStatus = { ...scope.status, observedGeneration: generation, ...(title === undefined ? {} : { title }) };
    if (isDeepStrictEqual(current, before.status) && !lacksFinishedCondition(before)) {
      // Between two looks nothing is known of what the last one has withheld.
      if (scope.look !== undefined) this.#watch.nothingToWrite(before.metadata);
      return;
    }
    if (this.#watch.withheld(before, current)) return;
    const status = withProjection(before, current, generation, isoTime(clock));
    scope.status = status;
    scope.stored = cachedConversation(await client.updateStatus(conversations, { ...before, status }, { signal, from: before.status }));
    this.#newest.observe(scope.stored);
    const notice = noticeOfRun(before.status, status);
    if (notice !== undefined) events.record(before, notice);
    const now = startStatusOf({ status });
    const { errorCode, error = '' } = status.start ?? {};
    if (!isStartOver(now) && errorCode !== undefined && errorCode !== before.status?.start?.errorCode)
      events.record(before, { type: 'Warning', reason: errorCode, message: error });
    if (now === startStatusOf(before)) return;
    logger.info('start changed', { conversation: before.metadata.name, status: now, code: status.start?.errorCode });
    if (now === 'ERROR') {
      events.record(before, {
        type: 'Warning',
        reason: status.start?.errorCode ?? 'StartFailed',
        message: status.start?.error ?? 'The start failed.',
      });
    } else if (now === 'READY') {
      events.record(before, { type: 'Normal', reason: 'Ready', message: 'The agent has accepted the conversation.' });
    }
    if (isStartOver(now)) metrics.starts.inc({ outcome: now, code: status.start?.errorCode ?? '' });
  }
}
