import type { AgentConversation, AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import { Shares } from '@conversation-operator/kube/shares';
import type { Store } from '@conversation-operator/kube/store';
import type { Logger } from '@conversation-operator/kube/logger';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { StartStatus, StartStep } from '../../resources/conversation.ts';
import { isNewerVersion } from '@conversation-operator/kube/object';
import { SandboxReason, hasRun, viewOfSandbox, type Sandbox, type SandboxView } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { createErrorOf, type CreateError } from '../sandbox/create-error.ts';
import { failureIn } from '../sandbox/failure.ts';
import type { AgentConfigurations } from './agent-configuration.ts';
import type { CloneAccess, Preparation, StartPipeline } from './pipeline.ts';
import { cloneUrlOf, providerOf, type GitHosts } from './repository.ts';
import { ensureSandbox, storedSandbox } from './sandbox-of.ts';
import type { Scope } from './scope.ts';
import { StartErrorCode, StartFailure, withDeadline, withTrouble } from './start.ts';
import { StepDeadlines, slackMs } from './step-deadlines.ts';
import { storedConversation } from './stored-conversation.ts';
import { isRunning, lastLineOf, pollAfterMs, withStep } from './step-status.ts';

export interface StartStepsOptions {
  readonly client: KubeClient;
  readonly stores: { readonly sandboxes: Store<Sandbox>; readonly templates: Store<SandboxTemplate> };
  readonly keys: SandboxKeys;
  readonly pipeline: StartPipeline;
  readonly gitHosts: GitHosts;
  /** Where the sandboxes of a namespace reach the gateway; absent: they don't. */
  readonly agentSide?: { readonly url: string; readonly namespace: string } | undefined;
  readonly configurations: AgentConfigurations;
  /** Why a start can't be accepted beside what is stored. */
  readonly refusalOf?: ((conversation: CachedConversation) => { readonly code: string; readonly message: string } | undefined) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Adds the next status of the start. */
  readonly transition: (scope: Scope, next: StartStatus, detail?: string) => void;
  /** Takes over what the agent has said of its conversation. `created`: just now; otherwise it may have been cut since. */
  readonly begun: (scope: Scope, state: AgentConversation, created: boolean) => void;
  /** The agent of the sandbox has answered a call. */
  readonly answered: (scope: Scope) => void;
  /** Writes the status, so that those who watch know it, and a process that dies has not forgotten it. */
  readonly store: (scope: Scope, signal: AbortSignal) => Promise<void>;
}

const firstPollMs = 200;
const retryMs = 1_000;
/** Maximum starts that call the agent of one sandbox at once: each call holds a worker. */
const maxPerSandbox = 4;
/** Until a start looks again whether fewer of those are under way. */
const busyMs = 1_000;

/** The container of the agent runs, the agent does not answer, and the sandbox itself waits for the agent without a deadline. */
const isAwaitingAgent = (sandbox: Sandbox | undefined, { reason }: SandboxView): boolean =>
  reason === SandboxReason.agentSilent || (reason === SandboxReason.waitingForAgent && sandbox !== undefined && hasRun(sandbox));

/** From WORKING to READY: each step looks whether it is done before it does anything. */
export class StartSteps {
  readonly #options: StartStepsOptions;
  readonly #deadlines: StepDeadlines;
  /** Starts that call agents, by sandbox. */
  readonly #calls = new Shares({ total: Infinity, perOwner: Infinity, perSandbox: maxPerSandbox, refuse: (bound) => new Error(bound) });

  constructor(options: StartStepsOptions) {
    this.#options = options;
    this.#deadlines = new StepDeadlines({ ...options, limits: options.pipeline.limits });
  }

  /** Returns the milliseconds after which to look again, or undefined when a change of the sandbox will say so. */
  async advance(scope: Scope, signal: AbortSignal): Promise<number | undefined> {
    const { client, stores, configurations, transition, refusalOf } = this.#options;
    if (scope.startStatus === 'WORKING') {
      const refusal = refusalOf?.(scope.stored);
      if (refusal !== undefined) throw new StartFailure(refusal.code, refusal.message);
      // Before anything is made that could not work without.
      await configurations.of(scope.stored);
      const access = { client, store: stores.sandboxes };
      try {
        scope.sandbox = await ensureSandbox(access, scope.stored, signal);
        scope.status = withTrouble(scope.status, undefined);
      } catch (error) {
        scope.status = withTrouble(scope.status, this.#refusal(scope, error));
      }
      if (scope.sandbox === undefined) {
        this.#deadlines.check(scope);
        return retryMs;
      }
      scope.status = { ...scope.status, sandboxName: scope.sandbox.metadata.name, sandboxUID: scope.sandbox.metadata.uid };
      transition(scope, 'WAITING_FOR_SANDBOX');
    }
    await this.#confirmFailure(scope, signal);
    const endpoint = this.#runningEndpoint(scope);
    if (endpoint === undefined) return this.#deadlines.leftMs(scope);
    const holder = { owner: scope.stored.spec.owner, sandbox: scope.status.sandboxUID };
    if (!this.#calls.hasRoom(holder)) {
      // Others start in this sandbox. The time of a step that has not begun does not count.
      if (scope.status.start?.deadline !== undefined) this.#deadlines.check(scope);
      return busyMs;
    }
    const release = this.#calls.take(holder);
    try {
      return await this.#inSandbox(scope, endpoint, signal);
    } finally {
      release();
    }
  }

  /** What is left of the start is done by calls to the agent. */
  async #inSandbox(scope: Scope, endpoint: AgentEndpoint, signal: AbortSignal): Promise<number | undefined> {
    const { client, pipeline, transition, begun, store } = this.#options;
    if (scope.startStatus === 'WAITING_FOR_SANDBOX') transition(scope, 'PREPARING_REPOSITORY');
    this.#deadlines.check(scope);
    // Known to those who watch before it takes its time; and no agent hears of a conversation that is not known to be its sandbox's.
    if (scope.stored.spec.repository !== undefined || scope.stored.status?.sandboxName === undefined) await store(scope, signal);
    const prepared = await this.#prepare(scope, endpoint, signal);
    this.#options.answered(scope);
    if (typeof prepared === 'number') return prepared;
    const whole = await storedConversation(client, scope.stored, signal);
    // The cache will show that it is gone.
    if (whole === undefined) return retryMs;
    scope.sandbox = this.#present(scope);
    const present = this.#runningEndpoint(scope);
    if (present === undefined) return this.#deadlines.leftMs(scope);
    const { created, status } = await pipeline.createConversation(whole, present, prepared.workingDir, signal);
    begun(scope, status, created);
    transition(scope, 'READY');
    return firstPollMs;
  }

  /** The steps in the sandbox, up to the folder that the agent works in; or when to look again. */
  async #prepare(scope: Scope, endpoint: AgentEndpoint, signal: AbortSignal): Promise<number | { readonly workingDir: string }> {
    const { pipeline, transition, store } = this.#options;
    if (scope.stored.spec.repository === undefined) {
      const workingDir = await pipeline.prepareWorkspace(endpoint, signal);
      if (scope.startStatus === 'PREPARING_REPOSITORY') transition(scope, 'SETTING_UP_SKILLS');
      return { workingDir };
    }
    if (scope.startStatus === 'PREPARING_REPOSITORY') {
      const access = () => this.#cloneAccess(scope);
      const clone = await pipeline.clone(scope.stored, endpoint, { begun: isRunning(scope.status, 'clone'), access, signal });
      const againMs = this.#take(scope, 'clone', clone);
      if (againMs !== undefined) return againMs;
      transition(scope, 'SETTING_UP_SKILLS', lastLineOf(scope.status, 'clone'));
      this.#deadlines.check(scope);
      await store(scope, signal);
    }
    const setup = await pipeline.setUp(scope.stored, endpoint, isRunning(scope.status, 'setup'), signal);
    return this.#take(scope, 'setup', setup) ?? setup;
  }

  /** Takes over how far a step is, and says when to look again; undefined when it is done. Ends the start when it has failed. */
  #take(scope: Scope, name: StartStep['name'], { report, failure }: Preparation): number | undefined {
    const now = this.#options.clock.now();
    scope.status = withStep(scope.status, name, report, now);
    if (failure !== undefined) throw failure;
    return report.state === 'done' ? undefined : pollAfterMs(scope.status, name, now);
  }

  /** What the owner's credential opens is at the gateway, with a ticket that is good as long as the step may last. */
  #cloneAccess({ stored, sandbox, status }: Scope): CloneAccess | undefined {
    const { agentSide, gitHosts, keys, clock } = this.#options;
    const { repository } = stored.spec;
    const provider = repository && providerOf(repository, gitHosts);
    if (agentSide?.namespace !== stored.metadata.namespace || repository === undefined || provider === undefined) return undefined;
    if (sandbox === undefined || !cloneUrlOf(repository, gitHosts).startsWith('http')) return undefined;
    const endMs = status.start?.deadline === undefined ? clock.now() + slackMs : Date.parse(status.start.deadline);
    const path = ['git', sandbox.metadata.name, provider, ...`${repository.name}.git`.split('/')].map(encodeURIComponent).join('/');
    return {
      gatewayUrl: `${agentSide.url.replace(/\/+$/, '')}/${path}`,
      ticket: keys.cloneTicket(sandbox.metadata.uid, { provider, repository: repository.name }, endMs, sandbox.status?.masterKeyId),
    };
  }

  /** Why the cluster takes no sandbox; throws what says nothing about that. */
  #refusal({ stored }: Scope, error: unknown): CreateError {
    const refusal = createErrorOf(error, 'sandbox');
    if (refusal === undefined) throw error;
    this.#options.logger.info('creation was refused', { conversation: stored.metadata.name, what: 'sandbox', code: refusal.code, error });
    return refusal;
  }

  /** The sandbox as it is after steps that took their time: what begins now begins in the container that it has now. */
  #present({ stored, sandbox }: Scope): Sandbox | undefined {
    const name = sandbox?.metadata.name ?? '';
    const present = this.#options.stores.sandboxes.get(stored.metadata.namespace, name);
    const newer = present?.metadata.uid === sandbox?.metadata.uid && present !== undefined && sandbox !== undefined;
    return newer && isNewerVersion(present, sandbox) ? present : sandbox;
  }

  /** A failed sandbox ends the start for good. The cache may be behind a person who has resumed it, so the API server is asked. */
  async #confirmFailure(scope: Scope, signal: AbortSignal): Promise<void> {
    const { sandbox } = scope;
    if (sandbox === undefined || viewOfSandbox(sandbox).phase !== 'ERROR') return;
    const { namespace, name, uid } = sandbox.metadata;
    const stored = await storedSandbox(this.#options.client, namespace, name, signal);
    scope.sandbox = stored?.metadata.uid === uid ? stored : undefined;
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
        if (isAwaitingAgent(scope.sandbox, view)) {
          // That has no end of its own, while its container runs.
          scope.status = withTrouble(scope.status, failureIn(view));
          this.#deadlines.check(scope);
          return undefined;
        }
        // The step's time runs only while there is a sandbox to take it in.
        scope.status = withTrouble(withDeadline(scope.status, undefined), failureIn(view));
        return undefined;
    }
  }
}
