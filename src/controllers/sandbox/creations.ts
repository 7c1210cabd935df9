import type { RecordingNeeds } from '../controller-spec.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { isoTime } from '@conversation-operator/base/clock';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import type { EventDetails } from '@conversation-operator/kube/events';
import { persistentVolumeClaims, pods, type Pod } from '@conversation-operator/kube/core';
import { isOwnedBy, type NewObject } from '@conversation-operator/kube/object';
import {
  SandboxReason,
  hasRun,
  keySeedOf,
  sandboxes,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { shouldRun } from '../../status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { buildClaim, bindingMs, volumeNameTaken } from './claim.ts';
import { podEvent, volumeEvent } from './events.ts';
import { buildPod, type PodSurroundings } from './pod.ts';
import type { PodCreations } from './pod-creations.ts';
import { createErrorOf, retryAfterMs, type CreatedKind } from './create-error.ts';
import { failed, outdated, waiting, type Outcome, type Scope, type WaitingFor } from './scope.ts';
import { progressSince, isReserved, reservedStatus } from './status.ts';
import { storedObject } from '../stored-object.ts';
import { isFinal } from './failure.ts';

export interface CreationsOptions extends PodSurroundings, RecordingNeeds {
  readonly keys: SandboxKeys;
  readonly podCreations: PodCreations;
}

/** Delay before the operator tries again to create an object whose name is in use. */
const askAgainMs = 1_000;

/**
 * The wait for an object whose name is in use. The sandbox may have just created the object, an old
 * object may be in deletion, or no cache shows the object yet.
 */
function nameInUse(what: CreatedKind, name: string, startingForMs: number): WaitingFor {
  const wait = (reason: string, message: string) => ({
    reason,
    message,
    requeueAfterMs: askAgainMs,
  });
  if (what === 'pod') return wait(SandboxReason.waitingForPod, 'Waiting for its pod.');
  if (startingForMs < bindingMs)
    return wait(SandboxReason.waitingForVolume, 'Waiting for its volume.');
  const { code, message } = volumeNameTaken(name);
  return { reason: code, message, requeueAfterMs: retryAfterMs(startingForMs) };
}

/** Creates the pod and the claim of a sandbox if the API server's version of it is meant to run. */
export class Creations {
  readonly #options: CreationsOptions;

  constructor(options: CreationsOptions) {
    this.#options = options;
  }

  /**
   * Reserves the slot of the pod, then calls `work`. `podCreations` counts the sandbox until `work`
   * ends, so that the slot of a sandbox that is deleted meanwhile stays taken.
   */
  during<T>(scope: Scope, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#options.podCreations.during(scope.sandbox.metadata.uid, async () => {
      if (!isReserved(scope.sandbox)) await this.reserve(scope, signal);
      return work();
    });
  }

  /** Whether no pod exists and none can appear. If a pod exists, sets `scope.pod`. */
  async noPod(
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
   * Stores in the status that a pod may exist from now on, if the admission has not stored it. The
   * write has the resourceVersion in which the sandbox was admitted and meant to run, so that the
   * API server rejects the write after any change.
   */
  async reserve(scope: Scope, signal: AbortSignal): Promise<void> {
    const { client, keys, clock } = this.#options;
    const { sandbox, template } = scope;
    const status = reservedStatus(sandbox, {
      template,
      currentKeyId: keys.currentKeyId,
      now: isoTime(clock),
    });
    scope.sandbox = await client.updateStatus(sandboxes, { ...sandbox, status }, { signal });
    scope.reserved = true;
  }

  /** Creates the claim. Returns undefined once it exists, or the outcome of a wait or failure. */
  async claim(
    scope: Scope,
    template: SandboxTemplate,
    signal: AbortSignal,
  ): Promise<Outcome | undefined> {
    const { client } = this.#options;
    if (!(await this.#confirmedToRun(scope, signal))) return outdated;
    return this.#create(scope, 'volume', async () => {
      scope.claim = await client.create(
        persistentVolumeClaims,
        buildClaim(scope.sandbox, template),
        { metadataOnly: true, signal },
      );
      return volumeEvent(scope.sandbox);
    });
  }

  /** Creates the pod. Returns undefined once it exists, or the outcome of a wait or failure. */
  async pod(
    scope: Scope,
    template: SandboxTemplate,
    signal: AbortSignal,
  ): Promise<Outcome | undefined> {
    const { keys, agentSide, outward } = this.#options;
    const { sandbox } = scope;
    if (!(await this.#confirmedToRun(scope, signal))) return outdated;
    // The template did not exist when the slot was reserved, so the status lacks `agentKind`.
    if (scope.sandbox.status?.agentKind === undefined) await this.reserve(scope, signal);
    return this.#create(scope, 'pod', async () => {
      const pod = buildPod(scope.sandbox, template, {
        bootstrapKey: keys.bootstrapKey(
          keySeedOf(scope.sandbox),
          scope.sandbox.status?.masterKeyId,
        ),
        agentSide,
        outward,
      });
      scope.pod = await this.#createPod(pod, scope.sandbox, signal);
      return podEvent(sandbox, scope.claim);
    });
  }

  /**
   * Whether the sandbox is meant to run, according to the API server. Updates `scope.sandbox`, and
   * reserves the slot if necessary. The cache may not show a deletion, a pause, or the release of
   * the slot yet. Objects of a deleted sandbox would be garbage-collected and created again in a
   * loop.
   */
  async #confirmedToRun(scope: Scope, signal: AbortSignal): Promise<boolean> {
    if (scope.reserved) return true;
    if (await this.#isJustAdmitted(scope.sandbox)) {
      scope.reserved = true;
      return true;
    }
    const stored = await storedObject(
      { client: this.#options.client, signal },
      sandboxes,
      scope.sandbox,
    );
    if (stored === undefined || !shouldRun(stored)) return false;
    scope.sandbox = stored;
    if (isReserved(stored)) scope.reserved = true;
    else await this.reserve(scope, signal);
    return true;
  }

  async #isJustAdmitted(sandbox: Sandbox): Promise<boolean> {
    const { podCreations } = this.#options;
    return (
      shouldRun(sandbox) && isReserved(sandbox) && (await podCreations.isJustAdmitted(sandbox))
    );
  }

  async #create(
    scope: Scope,
    what: CreatedKind,
    create: () => Promise<EventDetails | undefined>,
  ): Promise<Outcome | undefined> {
    const { clock, events, logger } = this.#options;
    const { name } = scope.sandbox.metadata;
    // A sandbox that waits for room in a ResourceQuota has no `startingSinceTime`. The attempts
    // then slow down with the time since its admission.
    const { startingSinceTime = progressSince(scope.sandbox) } = scope.sandbox.status ?? {};
    const startingForMs = clock.now() - Date.parse(startingSinceTime);
    try {
      const event = await create();
      if (event !== undefined) events.record(scope.sandbox, event);
      return undefined;
    } catch (error) {
      if (isAlreadyExists(error)) return waiting(scope, nameInUse(what, name, startingForMs));
      const createError = createErrorOf(error, what);
      if (createError === undefined) throw error;
      const { code, message, policy, serverMessage } = createError;
      logger.info('creation was refused', { sandbox: name, what, code, error });
      const outcome = isFinal(policy, { hasRun: hasRun(scope.sandbox), overdue: false })
        ? failed(scope, createError)
        : waiting(scope, { reason: code, message, requeueAfterMs: retryAfterMs(startingForMs) });
      return { ...outcome, serverMessage };
    }
  }

  async #createPod(
    pod: NewObject<Pod>,
    { metadata: { uid } }: Sandbox,
    signal: AbortSignal,
  ): Promise<Pod> {
    const { client, podCreations } = this.#options;
    try {
      return await client.create(pods, pod, { metadataOnly: true, signal });
    } catch (error) {
      podCreations.failed(uid, error);
      throw error;
    }
  }
}
