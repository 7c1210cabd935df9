import type { PodSurroundings } from './pod.ts';
import type { AgentClient } from '../../agent/agent.ts';
import type { PodCreations } from './pod-creations.ts';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Logger } from '@conversation-operator/base/logger';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Stores } from '../caches.ts';
import { isDeepStrictEqual } from 'node:util';
import { withoutSecrets } from '../../agent/redaction.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { NewestStore } from '@conversation-operator/kube/newest-store';
import type { CachedClaim, CachedPod } from '../../resources/cached-core.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { isOwnedBy } from '@conversation-operator/kube/object';
import { SandboxReason, hasRun, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { shouldRun, viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { SandboxArchives } from '../archive/seal.ts';
import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import { lastWords } from './readable-output.ts';
import { AgentConnections } from './agent-connection.ts';
import { AgentConnector } from './agent-connector.ts';
import { AgentStops } from './agent-stops.ts';
import { ClaimBindings } from './claim.ts';
import { Creations } from './creations.ts';
import { decideSandbox, dependsOnNodeAddition, hasEnded, startDeadlineMsOf } from './decide.ts';
import { NodeAdditions } from './node-additions.ts';
import {
  type ObservedSandbox,
  type SandboxStep,
  failed,
  observedOf,
  outdated,
  patientIntervalMs,
  startKeyOf,
  waiting,
  type Outcome,
  type Scope,
} from './scope.ts';
import { statusEvent } from './events.ts';
import { PodBackoff } from './pod-loss.ts';
import { lastOutputOf } from './pod-failure.ts';
import {
  isPassing,
  isUndecided,
  progressSince,
  runningProgress,
  sandboxStatus,
  unready,
  type SandboxProgress,
  isReserved,
} from './status.ts';
import { deleteObject, storedObject } from '../stored-object.ts';
import { FailureCode } from './failure.ts';

export interface SandboxReconcilerOptions extends PodSurroundings {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly stores: Pick<Stores, 'sandboxes' | 'templates' | 'pods' | 'claims'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly podCreations: PodCreations;
  readonly agent: AgentClient;
  /** Agents that do not answer the calls of other controllers. */
  readonly unresponsiveAgents?: UnresponsiveAgents | undefined;
  /** How long a pause waits for the agent to stop its runs, in milliseconds. Default 15,000. */
  readonly pauseBoundMs?: number | undefined;
  /** Archives what agents have, before their pods are deleted. Absent: there is no archive. */
  readonly archives?: SandboxArchives | undefined;
}

/**
 * Minimum time that a start has lasted before its steps are written, in milliseconds: longer than a
 * start takes with its image on the node.
 */
const passingMs = 3_000;
/**
 * Delay before a sandbox on which admission has not decided gets a status, in milliseconds. The
 * first decision writes one by itself, and would meet another version.
 */
const undecidedMs = 5_000;
/**
 * The wait for the watch to show a claim that was just created. A scheduler that sees the pod
 * before its claim reports FailedScheduling, and tries again a second later at the earliest. The
 * delay is for a watch that is late.
 */
const claimIsNew = {
  reason: SandboxReason.waitingForVolume,
  message: 'Waiting for its volume.',
  requeueAfterMs: 200,
};
/**
 * SandboxReconciler brings a sandbox's pod, volume and agent to the state of its spec and
 * admission, one step after the other.
 */
export class SandboxReconciler {
  readonly #options: SandboxReconcilerOptions;
  readonly #creations: Creations;
  readonly #stops: AgentStops;
  readonly #elapsed: ElapsedTimes;
  readonly #bindings: ClaimBindings;
  readonly #nodeAdditions: NodeAdditions;
  readonly #podBackoff: PodBackoff;
  readonly #connector: AgentConnector;
  readonly #newest: NewestStore<Sandbox>;
  readonly #claims: NewestStore<CachedClaim>;
  readonly #pods: NewestStore<CachedPod>;

  constructor(options: SandboxReconcilerOptions) {
    const { client, keys, clock, random, logger, stores, agent, agentSide } = options;
    this.#options = options;
    const elapsed = new ElapsedTimes({ clock });
    this.#elapsed = elapsed;
    this.#bindings = new ClaimBindings({ clock });
    this.#nodeAdditions = new NodeAdditions({ client, clock, logger, elapsed });
    this.#creations = new Creations({
      client,
      keys,
      clock,
      logger,
      events: options.events,
      podCreations: options.podCreations,
      agentSide,
      outward: options.outward,
    });
    const connections = new AgentConnections({ agent, keys, clock, random, agentSide });
    this.#stops = new AgentStops({
      client,
      agent,
      keys,
      clock,
      logger,
      elapsed,
      connections,
      archives: options.archives,
      pauseBoundMs: options.pauseBoundMs,
    });
    this.#podBackoff = new PodBackoff({ clock });
    this.#connector = new AgentConnector({
      client,
      keys,
      logger,
      elapsed,
      connections,
      stops: this.#stops,
      podBackoff: this.#podBackoff,
      unresponsiveAgents: options.unresponsiveAgents,
    });
    this.#newest = new NewestStore(stores.sandboxes, clock);
    this.#claims = new NewestStore(stores.claims, clock);
    this.#pods = new NewestStore(stores.pods, clock);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { stores, clock } = this.#options;
    const cached = this.#newest.get(namespace, name);
    // The sandbox owns its pod and its claim, and the garbage collector deletes them.
    if (cached === undefined || cached.metadata.deletionTimestamp !== undefined) return undefined;
    const pod = this.#pods.get(namespace, name);
    const scope: Scope = {
      sandbox: cached,
      reserved: false,
      template: stores.templates.get(namespace, cached.spec.templateName),
      claim: this.#claims.get(namespace, name),
      pod,
      uncached: pod !== undefined && stores.pods.get(namespace, name) === undefined,
    };
    // `during` begins before the reservation and ends after the creation: if the sandbox is deleted
    // in between, its slot is not free.
    try {
      const { progress, requeueAfterMs, serverMessage } = shouldRun(cached)
        ? await this.#options.podCreations.during(cached.metadata.uid, () =>
            this.#run(scope, signal),
          )
        : await this.#advance(scope, signal);
      if (progress !== undefined) {
        const { sandbox } = scope;
        const status = sandboxStatus(sandbox, progress, isoTime(clock));
        // A step without a delay after it needs its status stored.
        const isDeferrable = requeueAfterMs !== 0 && isPassing(sandbox, status);
        const deferMs = isDeferrable ? this.#deferMs(sandbox) : 0;
        if (deferMs > 0) return { requeueAfterMs: Math.min(deferMs, requeueAfterMs ?? deferMs) };
        if (!isDeepStrictEqual(status, sandbox.status)) {
          scope.sandbox = await this.#options.client.updateStatus(
            sandboxes,
            { ...sandbox, status },
            { signal },
          );
          this.#explain(sandbox, { ...sandbox, status }, serverMessage);
        }
      }
      return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
    } finally {
      this.#claims.created(scope.claim);
      this.#pods.created(scope.pod);
      this.#newest.observe(scope.sandbox);
    }
  }

  /** Remaining time in which a step of an ordinary start is not written, in milliseconds. */
  #deferMs(sandbox: Sandbox): number {
    const { uid } = sandbox.metadata;
    const delayMs = isUndecided(sandbox) ? undecidedMs : passingMs;
    return delayMs - this.#elapsed.elapsedMs(`passing/${uid}`, progressSince(sandbox));
  }

  /**
   * Reads a sandbox again, after a write has met another version than the one that was decided on.
   */
  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(sandboxes, namespace, name, { signal });
    if (sandboxes.accepts?.(stored) !== false) this.#newest.observe(stored);
  }

  async #run(scope: Scope, signal: AbortSignal): Promise<Outcome> {
    if (!isReserved(scope.sandbox)) await this.#creations.reserve(scope, signal);
    return this.#advance(scope, signal);
  }

  /**
   * Whether it is sure that no pod of the sandbox exists, and that none comes. Sets the pod, where
   * there is one after all.
   */
  async #noPod(
    scope: Scope,
    signal: AbortSignal,
  ): Promise<{ readonly sure: boolean; readonly requeueAfterMs?: number }> {
    const { client, podCreations } = this.#options;
    const { namespace, name, uid } = scope.sandbox.metadata;
    const unsettledMs = podCreations.unsettledMs(uid);
    if (unsettledMs > 0) return { sure: false, requeueAfterMs: unsettledMs };
    const pod = await storedObject({ client, signal }, pods, { metadata: { namespace, name } });
    if (pod === undefined || !isOwnedBy(pod, scope.sandbox)) return { sure: true };
    scope.pod = pod;
    scope.uncached = true;
    return { sure: false };
  }

  /**
   * Takes steps until one has to wait. Every step that creates an object leads to another step, so
   * the loop ends.
   */
  async #advance(scope: Scope, signal: AbortSignal): Promise<Outcome> {
    for (;;) {
      const step = decideSandbox(await this.#withNodeAddition(this.#observe(scope), signal));
      const outcome = await this.#take(step, scope, signal);
      if (outcome !== undefined) {
        const { requeueAfterMs = patientIntervalMs } = outcome;
        return scope.uncached === true
          ? { ...outcome, requeueAfterMs: Math.min(requeueAfterMs, patientIntervalMs) }
          : outcome;
      }
    }
  }

  #observe(scope: Scope): ObservedSandbox {
    const { sandbox, claim, pod } = scope;
    const { uid } = sandbox.metadata;
    const { startingSinceTime } = sandbox.status ?? {};
    const now = this.#options.clock.now();
    if (pod !== undefined && hasEnded(pod))
      this.#podBackoff.ended(
        uid,
        pod.metadata.uid,
        now - Date.parse(pod.metadata.creationTimestamp),
      );
    return {
      ...scope,
      now,
      startingForMs:
        startingSinceTime === undefined
          ? 0
          : this.#elapsed.elapsedMs(startKeyOf(sandbox), startingSinceTime),
      bindsInMs: claim === undefined || pod !== undefined ? 0 : this.#bindings.waitMs(claim),
      replaceInMs: this.#podBackoff.waitMs(uid),
    };
  }

  async #withNodeAddition(
    observed: ObservedSandbox,
    signal: AbortSignal,
  ): Promise<ObservedSandbox> {
    const { pod } = observed;
    if (pod === undefined || !dependsOnNodeAddition(observed)) return observed;
    const isFinal = observed.startingForMs >= startDeadlineMsOf(observed);
    const nodeAddition = await this.#nodeAdditions.of(pod, { isFinal, signal });
    return { ...observed, nodeAddition };
  }

  async #take(step: SandboxStep, scope: Scope, signal: AbortSignal): Promise<Outcome | undefined> {
    const { client, unresponsiveAgents } = this.#options;
    const { sandbox } = scope;
    switch (step.kind) {
      case 'create-claim':
        return (
          (await this.#creations.claim(scope, step.template, signal)) ??
          (scope.pod === undefined ? waiting(scope, claimIsNew) : undefined)
        );
      case 'create-pod':
        return this.#creations.pod(scope, step.template, signal);
      case 'connect-agent':
        return this.#connector.connect(scope, step, signal);
      case 'running':
        if (unresponsiveAgents?.isUnresponsive(sandbox.metadata.uid) === true)
          return this.#connector.connect(scope, step, signal);
        return {
          progress: { ...observedOf(scope), ...runningProgress, containerID: step.containerID },
        };
      case 'wait':
        return waiting(scope, step);
      case 'replace-pod':
        await deleteObject({ client, signal }, pods, step.pod);
        return waiting(scope, step);
      case 'stop-agent':
        return this.#stops.stop(scope, step.pod, step.podIP, signal);
      case 'stopped':
        return this.#stopped(scope, signal);
      case 'delete-claim':
        await deleteObject({ client, signal }, persistentVolumeClaims, step.claim);
        return this.#stopped(scope, signal);
      case 'recover':
        return this.#recover(sandbox);
      case 'fail':
        return this.#fail(scope, step, signal);
    }
  }

  /**
   * The sandbox has no pod that any cache shows. Its slot is given back once the API server itself
   * says so.
   */
  async #stopped(scope: Scope, signal: AbortSignal): Promise<Outcome | undefined> {
    const { sandbox } = scope;
    const { reason, message } = viewOfSandbox(sandbox);
    const progress: SandboxProgress = { ready: false, reason, message, wanted: shouldRun(sandbox) };
    if (sandbox.status?.replicas !== 1) return { progress };
    const { sure, requeueAfterMs } = await this.#noPod(scope, signal);
    if (sure) return { progress: { ...progress, released: true } };
    return requeueAfterMs === undefined ? undefined : { progress, requeueAfterMs };
  }

  /**
   * Takes the failure back, so that admission may let the sandbox in again. Until the back-off is
   * over it takes no slot.
   */
  #recover(sandbox: Sandbox): Outcome {
    const requeueAfterMs = this.#podBackoff.waitMs(sandbox.metadata.uid);
    if (requeueAfterMs === 0)
      return { progress: { ready: false, wanted: false, ...unready.recovered, recovered: true } };
    const { reason, message } = viewOfSandbox(sandbox);
    return { progress: { ready: false, wanted: false, reason, message }, requeueAfterMs };
  }

  /**
   * Ends the sandbox in ERROR. A pod that no longer exists is no reason: the cache may show what an
   * earlier attempt ended with.
   */
  async #fail(
    scope: Scope,
    failure: { readonly code: string; readonly message: string },
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { pod, sandbox } = scope;
    if (
      pod !== undefined &&
      (await storedObject({ client: this.#options.client, signal }, pods, pod)) === undefined
    )
      return outdated;
    this.#podBackoff.ended(
      sandbox.metadata.uid,
      pod?.metadata.uid ?? sandbox.metadata.resourceVersion,
      0,
    );
    // The output of an agent that has run may hold data that was sent to its model's provider, so
    // only the first start shows it.
    const output =
      failure.code === FailureCode.crashLoop && !hasRun(sandbox) && pod !== undefined
        ? lastOutputOf(pod)
        : undefined;
    if (output === undefined) return failed(scope, failure);
    return failed(scope, {
      ...failure,
      message: `${failure.message} The container printed: ${this.#shown(output, sandbox)}`,
    });
  }

  /** Output of an agent for its owner: bounded, in one line, without the sandbox's keys. */
  #shown(output: string, { metadata: { uid }, status }: Sandbox): string {
    const { keys } = this.#options;
    const keyId = status?.masterKeyId;
    const secrets = [
      keys.bootstrapKey(uid, keyId),
      keys.sessionKey(uid, keyId),
      keys.secretKey(uid, keyId),
    ];
    return lastWords(withoutSecrets(output, secrets)).replaceAll(/\s*\n\s*/g, ' / ');
  }

  #explain(before: Sandbox, after: Sandbox, serverMessage: string | undefined): void {
    const { phase, reason } = after.status ?? {};
    if (phase !== before.status?.phase || reason !== before.status?.reason)
      this.#options.logger.info('sandbox changed', { sandbox: after.metadata.name, phase, reason });
    const event = statusEvent(before, after, serverMessage);
    if (event !== undefined) this.#options.events.record(after, event);
  }
}
