import type { RecordingNeeds } from '../controller-spec.ts';
import type { Stores } from '../caches.ts';
import { isDeepStrictEqual } from 'node:util';
import { isoTime } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { NewestStore } from '@conversation-operator/kube/store';
import type { CachedClaim, CachedPod } from '../../resources/cached-core.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { SandboxReason, hasRun, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { shouldRun, viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { SandboxObserver } from './observer.ts';
import type { AgentConnector } from './agent-connector.ts';
import type { Creations } from './creations.ts';
import { decideSandbox } from './decide.ts';
import {
  type SandboxStep,
  failed,
  outdated,
  patientIntervalMs,
  waiting,
  type Outcome,
  type Scope,
} from './scope.ts';
import { statusEvent } from './events.ts';
import { lastOutputOf } from './pod-failure.ts';
import { isPassing, sandboxStatus, unready, type SandboxProgress } from './status.ts';
import { deleteObject, storedObject } from '../stored-object.ts';
import { FailureCode } from './failure.ts';

export interface SandboxReconcilerOptions extends RecordingNeeds {
  readonly stores: Pick<Stores, 'sandboxes' | 'templates' | 'pods' | 'claims'>;
  readonly creations: Creations;
  readonly connector: AgentConnector;
  readonly observer: SandboxObserver;
}

/**
 * The wait until the watch shows a claim that was just created. A scheduler that sees the pod
 * before its claim reports FailedScheduling, and retries a second later at the earliest. The
 * requeue covers a watch that is late.
 */
const claimIsNew = {
  reason: SandboxReason.waitingForVolume,
  message: 'Waiting for its volume.',
  requeueAfterMs: 200,
};
/** Moves a sandbox's pod, claim and agent towards its spec and admission, one step at a time. */
export class SandboxReconciler {
  readonly #options: SandboxReconcilerOptions;
  readonly #newest: NewestStore<Sandbox>;
  readonly #claims: NewestStore<CachedClaim>;
  readonly #pods: NewestStore<CachedPod>;

  constructor(options: SandboxReconcilerOptions) {
    const { stores, clock } = options;
    this.#options = options;
    this.#newest = new NewestStore(stores.sandboxes, clock);
    this.#claims = new NewestStore(stores.claims, clock);
    this.#pods = new NewestStore(stores.pods, clock);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { stores, clock, creations, observer } = this.#options;
    const cached = this.#newest.get(namespace, name);
    // The garbage collector deletes the pod and the claim of a deleted sandbox.
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
    try {
      const { progress, requeueAfterMs, serverMessage } = shouldRun(cached)
        ? await creations.during(scope, () => this.#advance(scope, signal), signal)
        : await this.#advance(scope, signal);
      if (progress !== undefined) {
        const { sandbox } = scope;
        const status = sandboxStatus(sandbox, progress, isoTime(clock));
        // A status must be stored before a step that follows without a delay.
        const isDeferrable = requeueAfterMs !== 0 && isPassing(sandbox, status);
        const deferMs = isDeferrable ? observer.deferMs(sandbox) : 0;
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

  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(sandboxes, namespace, name, { signal });
    if (sandboxes.accepts?.(stored) !== false) this.#newest.observe(stored);
  }

  /** Takes steps until one has an outcome. Every other step creates an object, so the loop ends. */
  async #advance(scope: Scope, signal: AbortSignal): Promise<Outcome> {
    for (;;) {
      const step = decideSandbox(await this.#options.observer.observe(scope, signal));
      const outcome = await this.#take(step, scope, signal);
      if (outcome !== undefined) {
        const { requeueAfterMs = patientIntervalMs } = outcome;
        return scope.uncached === true
          ? { ...outcome, requeueAfterMs: Math.min(requeueAfterMs, patientIntervalMs) }
          : outcome;
      }
    }
  }

  async #take(step: SandboxStep, scope: Scope, signal: AbortSignal): Promise<Outcome | undefined> {
    const { client, creations, connector } = this.#options;
    const { sandbox } = scope;
    switch (step.kind) {
      case 'create-claim':
        return (
          (await creations.claim(scope, step.template, signal)) ??
          (scope.pod === undefined ? waiting(scope, claimIsNew) : undefined)
        );
      case 'create-pod':
        return creations.pod(scope, step.template, signal);
      case 'connect-agent':
        return connector.connect(scope, step, signal);
      case 'running':
        return connector.keep(scope, step, signal);
      case 'wait':
        return waiting(scope, step);
      case 'replace-pod':
        await deleteObject({ client, signal }, pods, step.pod);
        return waiting(scope, step);
      case 'stop-agent':
        return connector.stops.stop(scope, step, signal);
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

  /** Releases the slot once the API server has no pod of the sandbox. */
  async #stopped(scope: Scope, signal: AbortSignal): Promise<Outcome | undefined> {
    const { sandbox } = scope;
    const { reason, message } = viewOfSandbox(sandbox);
    const progress: SandboxProgress = { ready: false, reason, message, wanted: shouldRun(sandbox) };
    if (sandbox.status?.replicas !== 1) return { progress };
    const { sure, requeueAfterMs } = await this.#options.creations.noPod(scope, signal);
    if (sure) return { progress: { ...progress, released: true } };
    return requeueAfterMs === undefined ? undefined : { progress, requeueAfterMs };
  }

  /** Removes the failure after the back-off, so that admission may admit the sandbox again. */
  #recover(sandbox: Sandbox): Outcome {
    const requeueAfterMs = this.#options.observer.podBackoff.waitMs(sandbox.metadata.uid);
    if (requeueAfterMs === 0)
      return { progress: { ready: false, wanted: false, ...unready.recovered, recovered: true } };
    const { reason, message } = viewOfSandbox(sandbox);
    return { progress: { ready: false, wanted: false, reason, message }, requeueAfterMs };
  }

  /** Ends the sandbox in ERROR, unless its pod is deleted: the failure may be of an old pod. */
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
    this.#options.observer.podBackoff.ended(
      sandbox.metadata.uid,
      pod?.metadata.uid ?? sandbox.metadata.resourceVersion,
      0,
    );
    // Only a first start shows output, because an agent that has run may print data for its model.
    const output =
      failure.code === FailureCode.crashLoop && !hasRun(sandbox) && pod !== undefined
        ? lastOutputOf(pod)
        : undefined;
    if (output === undefined) return failed(scope, failure);
    return failed(scope, {
      ...failure,
      message: `${failure.message} The container printed: ${this.#options.connector.shown(output, sandbox)}`,
    });
  }

  #explain(before: Sandbox, after: Sandbox, serverMessage: string | undefined): void {
    const { phase, reason } = after.status ?? {};
    if (phase !== before.status?.phase || reason !== before.status?.reason)
      this.#options.logger.info('sandbox changed', { sandbox: after.metadata.name, phase, reason });
    const event = statusEvent(before, after, serverMessage);
    if (event !== undefined) this.#options.events.record(after, event);
  }
}
