import { isDeepStrictEqual } from 'node:util';
import { AgentError } from '../../agent/errors.ts';
import type { AgentClient, AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import { agentKindOf, agentPortOf } from '../../agent/kinds.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isoTime, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/errors.ts';
import type { EventDetails, EventRecorder } from '../../kube/events.ts';
import type { Store } from '../../kube/store.ts';
import type { Logger } from '../../observability/logger.ts';
import { persistentVolumeClaims, pods, type PersistentVolumeClaim, type Pod } from '../../resources/core.ts';
import { isOwnedBy, type NewObject } from '../../resources/object.ts';
import { hasStopToFinish, sandboxes, shouldRun, viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { AgentSilence } from '../agent-silence.ts';
import { connectAgent } from './agent-connection.ts';
import { AgentRuns } from './agent-runs.ts';
import type { AgentSide } from './agent-webhook.ts';
import { buildClaim } from './claim.ts';
import { decideSandbox, type SandboxStep } from './decide.ts';
import { nameInUse, type WaitingFor } from './name-in-use.ts';
import { noticeOfChange, noticeOfPod, noticeOfVolume } from './notices.ts';
import { agentPortOfPod, buildPod } from './pod.ts';
import type { PodCreations } from './pod-creations.ts';
import { refusalOf, retryAfterMs, type Creature } from './refusal.ts';
import { runningProgress, sandboxStatus, unready, type SandboxProgress } from './status.ts';
import { isOver } from './trouble.ts';

export interface SandboxReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: {
    readonly sandboxes: Store<Sandbox>;
    readonly templates: Store<SandboxTemplate>;
    readonly pods: Store<Pod>;
    readonly claims: Store<PersistentVolumeClaim>;
  };
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly podCreations: PodCreations;
  /** Of agents that are asked for other reasons. */
  readonly silence?: AgentSilence;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where agents send webhooks to; absent: nowhere. */
  readonly agentSide?: AgentSide | undefined;
  /** How long a pause waits for the agent to stop its runs, in milliseconds. Default 15,000. */
  readonly pauseBoundMs?: number;
}

/** What a reconcile of one sandbox has found and done so far. */
interface Scope {
  sandbox: Sandbox;
  /** That it may have a pod has been stored, or seen to be stored, in this reconcile. */
  reserved: boolean;
  readonly template: SandboxTemplate | undefined;
  claim: PersistentVolumeClaim | undefined;
  pod: Pod | undefined;
  /** The cache does not have the pod, so maybe no watch will tell when it goes. */
  uncached?: boolean;
}

interface Outcome {
  /** Absent: what the cache shows is not true any more, so nothing is said of it. */
  readonly progress?: SandboxProgress;
  /** The API server's own words on why something could not be created: for Events and logs alone. */
  readonly said?: string;
  readonly requeueAfterMs?: number | undefined;
}

/** The watch will say so; this is for the case that it has fallen silent. */
const outdated: Outcome = { requeueAfterMs: 5_000 };

/** How long a start that has just begun asks its agent at short intervals. */
const eagerMs = 10_000;
const eagerIntervalMs = 100;
const patientIntervalMs = 1_000;
const stopIntervalMs = 200;
const mostInterrupted = 64;

/** Brings a sandbox's pod, volume and agent to what its spec and its admission say, one step after the other. */
export class SandboxReconciler {
  readonly #options: SandboxReconcilerOptions;
  readonly #pauseBoundMs: number;
  readonly #runs: AgentRuns;

  constructor(options: SandboxReconcilerOptions) {
    this.#options = options;
    this.#pauseBoundMs = options.pauseBoundMs ?? 15_000;
    this.#runs = new AgentRuns(options);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { stores, clock } = this.#options;
    const cached = stores.sandboxes.get(namespace, name);
    // Its pod and claim are owned by it: the garbage collector takes them.
    if (cached === undefined || cached.metadata.deletionTimestamp !== undefined) return undefined;
    const scope: Scope = {
      sandbox: cached,
      reserved: false,
      template: stores.templates.get(namespace, cached.spec.templateName),
      claim: stores.claims.get(namespace, name),
      pod: stores.pods.get(namespace, name),
    };
    // From before the reservation to after the creation: in between the sandbox may be deleted, and its slot is not free then.
    const { progress, requeueAfterMs, said } = shouldRun(cached)
      ? await this.#options.podCreations.during(cached.metadata.uid, () => this.#run(scope, signal))
      : await this.#advance(scope, signal);
    if (progress !== undefined) {
      const { sandbox } = scope;
      const status = sandboxStatus(sandbox, progress, isoTime(clock));
      if (!isDeepStrictEqual(status, sandbox.status)) {
        await this.#options.client.updateStatus(sandboxes, { ...sandbox, status }, { signal });
        this.#explain(sandbox, { ...sandbox, status }, said);
      }
    }
    return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  }

  async #run(scope: Scope, signal: AbortSignal): Promise<Outcome> {
    const { masterKeyId, replicas } = scope.sandbox.status ?? {};
    if (masterKeyId === undefined || replicas !== 1) await this.#reserve(scope, signal);
    return this.#advance(scope, signal);
  }

  /**
   * Stores that a pod may exist from now on, on the very version on which the sandbox was meant to run and admitted: if that is
   * not so any more, the write is refused. Until this controller takes it back, the slot is taken. The master key is chosen in
   * the same write, before anything is derived from it, because a rotation must not change a sandbox's keys half-way.
   */
  async #reserve(scope: Scope, signal: AbortSignal): Promise<void> {
    const { client, keys, clock } = this.#options;
    const { sandbox } = scope;
    // It is not paused any more; of a pause that comes next, nothing has been stored yet.
    const { pausedAt: _pausedAt, ...status } = sandbox.status ?? {};
    const masterKeyId = status.masterKeyId ?? keys.currentKeyId;
    // The start deadline counts from here, also where nothing can be created and so nothing more be said.
    const { startingSince = isoTime(clock) } = status;
    // Not the template's word of later: its pod speaks this protocol from now on.
    const agentKind = scope.template === undefined ? status.agentKind : agentKindOf(sandbox, scope.template);
    const reserved = { ...status, masterKeyId, startingSince, replicas: 1, ...(agentKind === undefined ? {} : { agentKind }) };
    scope.sandbox = await client.updateStatus(sandboxes, { ...sandbox, status: reserved }, { signal });
    scope.reserved = true;
  }

  /** Whether it is sure that no pod of the sandbox exists, and that none comes. Sets the pod, where there is one after all. */
  async #noPod(scope: Scope, signal: AbortSignal): Promise<{ readonly sure: boolean; readonly requeueAfterMs?: number }> {
    const { client, podCreations } = this.#options;
    const { namespace, name, uid } = scope.sandbox.metadata;
    const unsettledMs = podCreations.unsettledMs(uid);
    if (unsettledMs > 0) return { sure: false, requeueAfterMs: unsettledMs };
    try {
      const pod = await client.get(pods, namespace, name, { signal });
      if (!isOwnedBy(pod, scope.sandbox)) return { sure: true };
      scope.pod = pod;
      scope.uncached = true;
      return { sure: false };
    } catch (error) {
      if (isNotFound(error)) return { sure: true };
      throw error;
    }
  }

  /** Steps until one has to wait for the world. Every step that creates leads to another, so the loop ends. */
  async #advance(scope: Scope, signal: AbortSignal): Promise<Outcome> {
    for (;;) {
      const step = decideSandbox({ ...scope, now: this.#options.clock.now() });
      const outcome = await this.#take(step, scope, signal);
      if (outcome !== undefined) {
        const { requeueAfterMs = patientIntervalMs } = outcome;
        return scope.uncached === true ? { ...outcome, requeueAfterMs: Math.min(requeueAfterMs, patientIntervalMs) } : outcome;
      }
    }
  }

  async #take(step: SandboxStep, scope: Scope, signal: AbortSignal): Promise<Outcome | undefined> {
    const { client, keys, silence } = this.#options;
    const { sandbox } = scope;
    const wanted = shouldRun(sandbox);
    switch (step.kind) {
      case 'create-claim':
        if (!(await this.#confirmedToRun(scope, signal))) return outdated;
        return this.#create(scope, 'volume', async () => {
          scope.claim = await client.create(persistentVolumeClaims, buildClaim(scope.sandbox, step.template), { signal });
          return noticeOfVolume(scope.sandbox);
        });
      case 'create-pod':
        if (!(await this.#confirmedToRun(scope, signal))) return outdated;
        // Reserved while there was no template.
        if (scope.sandbox.status?.agentKind === undefined) await this.#reserve(scope, signal);
        return this.#create(scope, 'pod', async () => {
          const { uid } = scope.sandbox.metadata;
          const pod = buildPod(scope.sandbox, step.template, keys.bootstrapKey(uid, scope.sandbox.status?.masterKeyId));
          scope.pod = await this.#createPod(pod, scope.sandbox, signal);
          return noticeOfPod(sandbox, scope.claim);
        });
      case 'connect-agent':
        return this.#connect(scope, step.podIP, step.containerID, signal);
      case 'running':
        if (silence?.isSilent(sandbox.metadata.uid) === true) return this.#connect(scope, step.podIP, step.containerID, signal);
        return { progress: { ...this.#observed(scope), ...runningProgress, containerID: step.containerID } };
      case 'wait':
        return this.#waiting(scope, step);
      case 'replace-pod':
        await this.#deletePod(step.pod, signal);
        return this.#waiting(scope, step);
      case 'stop-agent':
        return this.#stop(scope, step.pod, step.podIP, signal);
      case 'stopped': {
        const { reason, message } = viewOfSandbox(sandbox);
        const progress: SandboxProgress = { ready: false, reason, message, wanted };
        if (sandbox.status?.replicas !== 1) return { progress };
        const { sure, requeueAfterMs } = await this.#noPod(scope, signal);
        if (sure) return { progress: { ...progress, released: true } };
        return requeueAfterMs === undefined ? undefined : { progress, requeueAfterMs };
      }
      case 'fail':
        return this.#failed(scope, step);
    }
  }

  #waiting(scope: Scope, { reason, message, held, requeueAfterMs }: WaitingFor): Outcome {
    const progress = { ...this.#observed(scope), ready: false, reason, message, wanted: shouldRun(scope.sandbox), held: held === true };
    return { progress, requeueAfterMs };
  }

  /** Its pod goes with the next step: what has failed is not meant to run any more. */
  #failed(scope: Scope, { code, message }: { readonly code: string; readonly message: string }): Outcome {
    const failed = { code, message };
    return { progress: { ...this.#observed(scope), ready: false, reason: code, message, failed, wanted: false }, requeueAfterMs: 0 };
  }

  /**
   * Whether it is to run, and its slot reserved, as the API server has it now: the cache may be behind a deletion, a pause, or
   * the write that took the reservation back. Goes on with what the server has.
   */
  async #confirmedToRun(scope: Scope, signal: AbortSignal): Promise<boolean> {
    if (scope.reserved) return true;
    const stored = await this.#stored(scope.sandbox, signal);
    if (stored === undefined || !shouldRun(stored)) return false;
    scope.sandbox = stored;
    if (stored.status?.replicas === 1 && stored.status.masterKeyId !== undefined) scope.reserved = true;
    else await this.#reserve(scope, signal);
    return true;
  }

  /**
   * The sandbox as the API server has it. A watch that has fallen silent leaves the cache behind for minutes; what is made for a
   * sandbox that is gone would be collected and made again, over and over, and a pod may not be stopped for a pause that is over.
   */
  async #stored({ metadata: { namespace, name, uid } }: Sandbox, signal: AbortSignal): Promise<Sandbox | undefined> {
    try {
      const stored = await this.#options.client.get(sandboxes, namespace, name, { signal });
      return stored.metadata.uid === uid && stored.metadata.deletionTimestamp === undefined ? stored : undefined;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Undefined once it is created, with what there is to be told of it; else what to wait for, or why it never will be. */
  async #create(scope: Scope, what: Creature, create: () => Promise<EventDetails | undefined>): Promise<Outcome | undefined> {
    const { clock, events, logger } = this.#options;
    const { name } = scope.sandbox.metadata;
    const { startingSince, lastContainerID } = scope.sandbox.status ?? {};
    const startingForMs = startingSince === undefined ? 0 : clock.now() - Date.parse(startingSince);
    try {
      const notice = await create();
      if (notice !== undefined) events.record(scope.sandbox, notice);
      return undefined;
    } catch (error) {
      if (isAlreadyExists(error)) return this.#waiting(scope, nameInUse(what, name, startingForMs));
      const refusal = refusalOf(error, what);
      if (refusal === undefined) throw error;
      const { code, message, patience, said } = refusal;
      logger.info('creation was refused', { sandbox: name, what, code, error });
      const outcome = isOver(patience, { hasRun: lastContainerID !== undefined, overdue: false })
        ? this.#failed(scope, refusal)
        : this.#waiting(scope, { reason: code, message, requeueAfterMs: retryAfterMs(startingForMs) });
      return { ...outcome, said };
    }
  }

  async #createPod(pod: NewObject<Pod>, { metadata: { uid } }: Sandbox, signal: AbortSignal): Promise<Pod> {
    const { client, podCreations } = this.#options;
    try {
      return await client.create(pods, pod, { signal });
    } catch (error) {
      podCreations.failed(uid, error);
      throw error;
    }
  }

  #observed({ pod, template, sandbox }: Scope): Pick<SandboxProgress, 'pod' | 'agentPort'> {
    const made = pod === undefined ? undefined : agentPortOfPod(pod);
    const agentPort = made ?? sandbox.status?.agentPort ?? (template === undefined ? undefined : agentPortOf(sandbox, template));
    return {
      agentPort,
      ...(pod === undefined ? {} : { pod: { name: pod.metadata.name, uid: pod.metadata.uid, ip: pod.status?.podIP } }),
    };
  }

  async #connect(scope: Scope, podIP: string, containerID: string, signal: AbortSignal): Promise<Outcome> {
    const { agent, keys, clock, logger } = this.#options;
    const { sandbox } = scope;
    const observed = this.#observed(scope);
    const endpoint = agentEndpointOf({ ...sandbox, status: { ...sandbox.status, podIP, agentPort: observed.agentPort } }, keys);
    const startingFor = sandbox.status?.startingSince === undefined ? 0 : clock.now() - Date.parse(sandbox.status.startingSince);
    // It has answered before, in this very container: the kubelet decides how long that may last, and no deadline of a start.
    const isSilent = sandbox.status?.lastContainerID === containerID;
    const requeueAfterMs = !isSilent && startingFor < eagerMs ? eagerIntervalMs : patientIntervalMs;
    try {
      if (endpoint !== undefined && (await connectAgent(agent, endpoint, sandbox, this.#options, signal))) {
        this.#options.silence?.over(sandbox.metadata.uid);
        const stopping = await this.#carryStopThrough(scope, containerID, endpoint, signal);
        return stopping ?? { progress: { ...observed, ...runningProgress, containerID } };
      }
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      logger.debug('agent is not ready', { sandbox: sandbox.metadata.name, code: error.code });
    }
    // Who does not answer cannot be stopped. That it is to be is kept until it answers, or its container ends.
    const wanted = !isSilent || !hasStopToFinish(sandbox);
    return {
      progress: { ...observed, ready: false, ...(isSilent ? unready.silent : unready.unanswered), wanted, held: isSilent },
      requeueAfterMs,
    };
  }

  /**
   * Resumed while its agent was being stopped, or before: undefined once the runs that were to be cut stand, or the time for that is
   * over. Until then it is not RUNNING, because a run that is about to stand can't be told from one that began after the resume. A
   * pause by its owner cuts what runs, however soon the resume came: the official web UI stops an agent by a pause and a resume.
   */
  async #carryStopThrough(scope: Scope, containerID: string, endpoint: AgentEndpoint, signal: AbortSignal): Promise<Outcome | undefined> {
    const { sandbox } = scope;
    const { containerID: known, pausedAt, interrupted = [], agentRuns = 0, lastOwnerStop } = sandbox.status ?? {};
    if (known !== containerID || !hasStopToFinish(sandbox)) return undefined;
    const progress: SandboxProgress = { ...this.#observed(scope), containerID, ready: false, ...unready.stopping, wanted: false };
    if (pausedAt === undefined) return { progress, requeueAfterMs: 0 };
    if (!this.#isInTime(pausedAt)) return undefined;
    const all = await this.#runs.running(endpoint, signal);
    // Nobody has looked yet what runs, and nothing can have begun since.
    if (interrupted.length === 0 && lastOwnerStop === agentRuns && all.length > 0)
      return { progress: { ...progress, interrupted: all.slice(0, mostInterrupted) }, requeueAfterMs: 0 };
    const running = all.filter((id) => interrupted.includes(id));
    await this.#runs.interrupt(endpoint, running, signal);
    return running.length === 0 ? undefined : { requeueAfterMs: stopIntervalMs };
  }

  #isInTime(pausedAt: string): boolean {
    return this.#options.clock.now() - Date.parse(pausedAt) < this.#pauseBoundMs;
  }

  /** Interrupts the agent's runs, waits until they stand, then deletes the pod; an agent that hangs is not waited for beyond the bound. */
  async #stop(scope: Scope, pod: Pod, podIP: string | undefined, signal: AbortSignal): Promise<Outcome> {
    const { keys } = this.#options;
    const { sandbox } = scope;
    const { reason, message } = viewOfSandbox(sandbox);
    const { containerID, pausedAt, interrupted: before = [] } = sandbox.status ?? {};
    const progress: SandboxProgress = { ...this.#observed(scope), containerID, ready: false, reason, message, wanted: false };
    // Known in the resource before anything is stopped: however soon it runs again, whose runs are to go on follows from why they were cut.
    if (pausedAt === undefined) return { progress, requeueAfterMs: 0 };
    const stored = await this.#stored(sandbox, signal);
    if (stored === undefined || shouldRun(stored)) return outdated;
    // The cached pod may be from before it had an address; no run begins before the address is stored.
    const address = podIP ?? (stored.status?.podUID === pod.metadata.uid ? stored.status.podIP : undefined);
    const { agentPort } = progress;
    const endpoint =
      address === undefined ? undefined : agentEndpointOf({ ...sandbox, status: { ...sandbox.status, podIP: address, agentPort } }, keys);
    const running = endpoint === undefined ? [] : await this.#runs.running(endpoint, signal);
    const waiting = endpoint === undefined ? [] : await this.#runs.waiting(endpoint, signal);
    const interrupted = [...new Set([...before, ...running, ...waiting])].slice(0, mostInterrupted);
    // Known in the resource before a run is cut: neither a crash nor a write that fails may forget which are to go on.
    if (interrupted.length > before.length) return { progress: { ...progress, interrupted }, requeueAfterMs: 0 };
    if (endpoint !== undefined) await this.#runs.cut(endpoint, { running, waiting }, signal);
    if (this.#isInTime(pausedAt) && running.length + waiting.length > 0) return { progress, requeueAfterMs: stopIntervalMs };
    await this.#deletePod(pod, signal);
    return { progress };
  }

  async #deletePod(pod: Pod, signal: AbortSignal): Promise<void> {
    const { namespace, name, uid } = pod.metadata;
    try {
      await this.#options.client.delete(pods, namespace ?? '', name, { uid, signal });
    } catch (error) {
      // Gone, or another of the same name: what was to be deleted is no more.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }

  #explain(before: Sandbox, after: Sandbox, said: string | undefined): void {
    const { phase, reason } = after.status ?? {};
    if (phase !== before.status?.phase || reason !== before.status?.reason)
      this.#options.logger.info('sandbox changed', { sandbox: after.metadata.name, phase, reason });
    const notice = noticeOfChange(before, after, said);
    if (notice !== undefined) this.#options.events.record(after, notice);
  }
}
