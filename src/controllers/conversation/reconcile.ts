import { isDeepStrictEqual } from 'node:util';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import { AgentError } from '../../agent/errors.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isoTime, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Store } from '../../kube/store.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Metrics } from '../../observability/metrics.ts';
import {
  conversations,
  isStartOver,
  startStatusOf,
  type Conversation,
  type ConversationStatus,
  type StartStatus,
} from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { SandboxReason, isRunRequested, viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { Delivery } from './delivery.ts';
import { withAgentState, withRunContinued, withSandboxAway, withUnseenLoss } from './execution.ts';
import { runOf, sinceMessage, withoutRunPending } from './messages.ts';
import { refusalOf, type Refusal } from '../sandbox/refusal.ts';
import { troubleIn } from '../sandbox/trouble.ts';
import { StartPipeline } from './pipeline.ts';
import type { GitHosts } from './repository.ts';
import { ensureSandbox, findSandbox } from './sandbox-of.ts';
import { StatusWatch, type Look } from './status-watch.ts';
import { StartErrorCode, StartFailure, stageMs, withDeadline, withFailure, withTransition, withTrouble } from './start.ts';

export interface ConversationReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: {
    readonly conversations: Store<Conversation>;
    readonly sandboxes: Store<Sandbox>;
    readonly templates: Store<SandboxTemplate>;
  };
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  readonly gitHosts: GitHosts;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

const cloneTimeoutSeconds = 600;
const setupTimeoutSeconds = 600;
/** Beyond what the commands of a step may take themselves: how long its agent may be out of reach. */
const stepDeadlineMs: Partial<Record<StartStatus, number>> = {
  // Until the sandbox of an earlier conversation of the same id has gone.
  WORKING: 60_000,
  PREPARING_REPOSITORY: (cloneTimeoutSeconds + 60) * 1000,
  SETTING_UP_SKILLS: (setupTimeoutSeconds + 60) * 1000,
};
const firstPollMs = 200;
/** Between two attempts to have something begun that the agent could not begin with yet. */
const beginMs = 1_000;
/** Between two looks for a sandbox that no cache shows. */
const unwatchedMs = 5_000;
const retryMs = 1_000;

/** What is gone stays so: a cache that shows it is behind. */
const isSandboxGone = ({ sandboxStatus, sandboxUID }: ConversationStatus): boolean =>
  sandboxStatus === 'MISSING' && sandboxUID !== undefined;

/** One reconcile's view of a conversation. `status` is what it is to become; `stored` is what the API server has. */
class Scope {
  stored: Conversation;
  status: ConversationStatus;
  sandbox: Sandbox | undefined;
  /** What the agent has shown, once it has been asked. */
  look: Look | undefined;
  /** What it was told has to be looked at again so soon. */
  againAfterMs: number | undefined;

  constructor(conversation: Conversation) {
    this.stored = conversation;
    this.status = conversation.status ?? {};
  }

  get startStatus(): StartStatus {
    return startStatusOf({ status: this.status });
  }
}

/** Takes a conversation through its start, then keeps its status what sandbox and agent are. */
export class ConversationReconciler {
  readonly #options: ConversationReconcilerOptions;
  readonly #pipeline: StartPipeline;
  readonly #delivery: Delivery;
  readonly #watch: StatusWatch;

  constructor(options: ConversationReconcilerOptions) {
    this.#options = options;
    this.#pipeline = new StartPipeline({ agent: options.agent, gitHosts: options.gitHosts, cloneTimeoutSeconds, setupTimeoutSeconds });
    this.#delivery = new Delivery(options);
    this.#watch = new StatusWatch(options);
  }

  /** Somebody says that the agent has something to tell. Milliseconds until it is asked; undefined: nobody asks it. */
  hint(request: Request): number | undefined {
    return this.#watch.hint(request);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const conversation = this.#options.stores.conversations.get(namespace, name);
    if (conversation === undefined || conversation.metadata.deletionTimestamp !== undefined) {
      this.#delivery.forget(namespace, name);
      this.#watch.forget({ namespace, name });
      return undefined;
    }
    const scope = new Scope(conversation);
    let requeueAfterMs: number | undefined;
    try {
      requeueAfterMs = await this.#advance(scope, signal);
    } catch (error) {
      if (error instanceof StartFailure) {
        this.#fail(scope, error);
      } else if (error instanceof AgentError && !signal.aborted) {
        this.#options.logger.debug('agent call failed', { conversation: name, code: error.code, error });
        requeueAfterMs = scope.look === undefined ? retryMs : this.#watch.failed(scope.look, error);
        scope.look = undefined;
      } else {
        throw error;
      }
    }
    this.#mirrorSandbox(scope);
    await this.#store(scope, signal);
    const { look, status, againAfterMs } = scope;
    if (look !== undefined)
      requeueAfterMs = this.#watch.looked(look, conversation, { before: conversation.status ?? {}, status, againAfterMs });
    if (this.#isUnwatched(scope)) requeueAfterMs = Math.min(requeueAfterMs ?? unwatchedMs, unwatchedMs);
    return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  }

  /** Its sandbox is known from the API server, and not yet to the cache: one that goes before the watch has seen it is never heard of. */
  #isUnwatched({ sandbox }: Scope): boolean {
    return sandbox !== undefined && this.#options.stores.sandboxes.get(sandbox.metadata.namespace, sandbox.metadata.name) === undefined;
  }

  async #advance(scope: Scope, signal: AbortSignal): Promise<number | undefined> {
    const { namespace } = scope.stored.metadata;
    if (scope.status.start === undefined) this.#transition(scope, 'WORKING');
    const { sandboxName } = scope.status;
    if (sandboxName !== undefined && !isSandboxGone(scope.status)) {
      const access = { client: this.#options.client, store: this.#options.stores.sandboxes };
      scope.sandbox = await findSandbox(access, namespace, { ...scope.status, sandboxName }, signal);
    }
    return isStartOver(scope.startStatus) ? this.#follow(scope, signal) : this.#start(scope, signal);
  }

  /** Returns the milliseconds after which to look again, or undefined when a change of the sandbox will say so. */
  async #start(scope: Scope, signal: AbortSignal): Promise<number | undefined> {
    if (scope.startStatus === 'WORKING') {
      const access = { client: this.#options.client, store: this.#options.stores.sandboxes };
      try {
        scope.sandbox = await ensureSandbox(access, scope.stored, signal);
        scope.status = withTrouble(scope.status, undefined);
      } catch (error) {
        scope.status = withTrouble(scope.status, this.#refusal(scope, error));
      }
      if (scope.sandbox === undefined) {
        this.#checkDeadline(scope);
        return retryMs;
      }
      scope.status = { ...scope.status, sandboxName: scope.sandbox.metadata.name, sandboxUID: scope.sandbox.metadata.uid };
      this.#transition(scope, 'WAITING_FOR_SANDBOX');
    }
    const endpoint = this.#runningEndpoint(scope);
    if (endpoint === undefined) return undefined;
    if (scope.startStatus === 'WAITING_FOR_SANDBOX') this.#transition(scope, 'PREPARING_REPOSITORY');
    this.#checkDeadline(scope);
    // Known to those who watch before it takes its time; and no agent hears of a conversation that is not known to be its sandbox's.
    if (scope.stored.spec.repository !== undefined || scope.stored.status?.sandboxName === undefined) await this.#store(scope, signal);
    const workingDir = await this.#pipeline.prepareRepository(scope.stored, endpoint, signal);
    if (scope.startStatus === 'PREPARING_REPOSITORY') this.#transition(scope, 'SETTING_UP_SKILLS');
    this.#checkDeadline(scope);
    if (scope.stored.spec.repository !== undefined) {
      await this.#store(scope, signal);
      await this.#pipeline.setUp(endpoint, signal);
    }
    const template = this.#options.stores.templates.get(scope.stored.metadata.namespace, scope.stored.spec.templateName);
    const { created, status } = await this.#pipeline.createConversation(scope.stored, template, endpoint, workingDir, signal);
    // One that was there already may have been cut since: that is for the next look, which sees it in a container that is new to it.
    if (created) this.#observe(scope, status);
    this.#transition(scope, 'READY');
    return firstPollMs;
  }

  /** Why the cluster takes no sandbox; throws what says nothing about that. */
  #refusal({ stored }: Scope, error: unknown): Refusal {
    const refusal = refusalOf(error, 'sandbox');
    if (refusal === undefined) throw error;
    this.#options.logger.info('creation was refused', { conversation: stored.metadata.name, what: 'sandbox', code: refusal.code, error });
    return refusal;
  }

  /** The agent of the sandbox, while the sandbox is RUNNING. Ends the start when that can never be. */
  #runningEndpoint(scope: Scope): AgentEndpoint | undefined {
    const view = viewOfSandbox(scope.sandbox);
    switch (view.phase) {
      case 'MISSING':
        throw new StartFailure(StartErrorCode.sandboxDeleted, 'The sandbox was deleted during the start.');
      case 'ERROR':
        throw new StartFailure(view.reason, view.message);
      case 'RUNNING':
        scope.status = withTrouble(scope.status, undefined);
        return scope.sandbox === undefined ? undefined : agentEndpointOf(scope.sandbox, this.#options.keys);
      case 'STARTING':
      case 'PAUSED':
        if (view.reason === SandboxReason.quotaExceeded) throw new StartFailure(StartErrorCode.quotaExceeded, view.message);
        // The step's time runs only while there is a sandbox to take it in.
        scope.status = withTrouble(withDeadline(scope.status, undefined), troubleIn(view));
        return undefined;
    }
  }

  #checkDeadline(scope: Scope): void {
    const { clock } = this.#options;
    const allowedMs = stepDeadlineMs[scope.startStatus];
    if (allowedMs === undefined) return;
    const deadline = scope.status.start?.deadline;
    if (deadline === undefined) {
      scope.status = withDeadline(scope.status, new Date(clock.now() + allowedMs).toISOString());
    } else if (clock.now() > Date.parse(deadline)) {
      if (scope.startStatus === 'WORKING') {
        const { errorCode, error } = scope.status.start ?? {};
        if (errorCode !== undefined) throw new StartFailure(errorCode, error ?? errorCode);
        throw new StartFailure(StartErrorCode.sandboxNameTaken, 'The sandbox of an earlier conversation of this id is still in use.');
      }
      throw new StartFailure(
        StartErrorCode.stepDeadlineExceeded,
        `The step ${scope.startStatus} did not end within ${allowedMs / 1000} s.`,
      );
    }
  }

  /** After the start: what the agent does, as long as there is one to ask. */
  async #follow(scope: Scope, signal: AbortSignal): Promise<number | undefined> {
    const { agent, clock, keys } = this.#options;
    if (scope.startStatus !== 'READY') return undefined;
    const view = viewOfSandbox(scope.sandbox);
    const id = conversationIdOf(scope.stored);
    if (view.phase !== 'RUNNING' || scope.sandbox === undefined) {
      this.#watch.forget(scope.stored.metadata);
      scope.status = withSandboxAway(scope.status, id, scope.sandbox, view, isoTime(clock));
      return undefined;
    }
    const endpoint = agentEndpointOf(scope.sandbox, keys);
    if (endpoint === undefined) return undefined;
    const look = await this.#watch.look(scope.stored, scope.sandbox, endpoint, signal);
    if (typeof look === 'number') return look;
    scope.look = look;
    const { state } = look;
    if (state === undefined) {
      scope.status = { ...scope.status, executionStatus: 'error', executionDetail: 'The agent does not know this conversation any more.' };
      return undefined;
    }
    const before = scope.status;
    let continueRun = this.#observe(scope, sinceMessage(state, before, clock.now()));
    if (scope.status.executionStatus === 'error' && scope.status.executionDetail === undefined) {
      const observed = scope.status;
      // Half of it is not stored: whether the run was cut follows from where it was seen before.
      scope.status = before;
      const failure = await agent.lastError(endpoint, id, { signal });
      if (failure === undefined && before.agentRun !== observed.agentRun) {
        ({ status: scope.status, continueRun } = withUnseenLoss(
          observed,
          before,
          isoTime(clock),
          scope.sandbox.status ?? {},
          isRunRequested(scope.sandbox),
        ));
      } else {
        const executionDetail = failure === undefined ? 'The run was cut off.' : `${failure.code}: ${failure.detail}`.slice(0, 2048);
        scope.status = { ...observed, executionDetail };
      }
    }
    if (continueRun) {
      await agent.run(endpoint, id, { signal });
      scope.status = withRunContinued(scope.status, isoTime(clock));
    }
    scope.againAfterMs = await this.#talk(scope, state, endpoint, signal);
    return undefined;
  }

  /** Tells the agent what has been sent to it since its first message. Returns when to look again; undefined: nothing is left. */
  async #talk(scope: Scope, state: AgentConversation, endpoint: AgentEndpoint, signal: AbortSignal): Promise<number | undefined> {
    const { agent, clock } = this.#options;
    const id = conversationIdOf(scope.stored);
    const begin = runOf(scope.status, state, clock.now());
    if (begin === 'run') {
      await agent.run(endpoint, id, { signal });
      scope.status = withRunContinued(withoutRunPending(scope.status), isoTime(clock));
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
        store: () => this.#store(scope, signal),
      },
      signal,
    );
    return again ?? (scope.status.messages?.runPending === true ? beginMs : undefined);
  }

  /** Returns whether the run has to be continued. */
  #observe(scope: Scope, state: Parameters<typeof withAgentState>[1]): boolean {
    const stops = scope.sandbox?.status ?? {};
    const runRequested = scope.sandbox !== undefined && isRunRequested(scope.sandbox);
    const now = this.#options.clock.now();
    const { status, continueRun } = withAgentState(scope.status, state, stops.agentRuns ?? 0, now, stops, runRequested);
    scope.status = status;
    return continueRun;
  }

  #mirrorSandbox(scope: Scope): void {
    if (scope.status.sandboxName === undefined) {
      scope.status = { ...scope.status, sandboxStatus: scope.startStatus === 'ERROR' ? 'ERROR' : 'STARTING' };
      return;
    }
    if (isSandboxGone(scope.status)) return;
    // A call to the agent may have taken minutes.
    const present = this.#options.stores.sandboxes.get(scope.stored.metadata.namespace, scope.status.sandboxName);
    const same = present !== undefined && present.metadata.uid === (scope.status.sandboxUID ?? present.metadata.uid);
    const { phase, reason } = viewOfSandbox(same ? present : scope.sandbox);
    scope.status = { ...scope.status, sandboxStatus: phase, sandboxStatusReason: reason };
  }

  #transition(scope: Scope, next: StartStatus): void {
    const { clock, metrics } = this.#options;
    metrics.startStageSeconds.observe({ stage: scope.startStatus }, stageMs(scope, clock.now()) / 1000);
    scope.status = withTransition(scope.status, next, isoTime(clock));
  }

  #fail(scope: Scope, failure: StartFailure): void {
    scope.status = withFailure(scope.status, failure, isoTime(this.#options.clock));
  }

  /** Writes the status if it has changed; afterwards `stored` is what the server has. */
  async #store(scope: Scope, signal: AbortSignal): Promise<void> {
    const { client, metrics, events, logger } = this.#options;
    const before = scope.stored;
    const { title } = before.spec;
    const status: ConversationStatus = {
      ...scope.status,
      observedGeneration: before.metadata.generation,
      ...(title === undefined ? {} : { title }),
    };
    if (isDeepStrictEqual(status, before.status) || this.#watch.withheld(before, status)) return;
    scope.stored = await client.updateStatus(conversations, { ...before, status }, { signal });
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
