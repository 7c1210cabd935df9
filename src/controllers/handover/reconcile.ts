import { isoTime } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
} from '@conversation-operator/kube/core';
import { found } from '@conversation-operator/kube/errors';
import { apiVersionOf, isOwnedBy } from '@conversation-operator/kube/object';
import type { Audit } from '../../observability/audit.ts';
import type { Totals } from '../../quota/caps.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations, secretsMacAnnotation } from '../../resources/conversation.ts';
import { handovers, type Handover, type HandoverStatus } from '../../resources/handover.ts';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import {
  isInSandbox,
  madeForReferenceOf,
  conversationReferencesOf,
} from '../../resources/sandbox-owner-references.ts';
import {
  byHandover,
  byHandoverConversation,
  bySandbox,
  type Stores,
  type WatchedCaches,
} from '../caches.ts';
import {
  requestOf,
  watch,
  workers,
  type CommonNeeds,
  type ControllerSpec,
} from '../controller-spec.ts';
import { deleteObject, storedObject } from '../stored-object.ts';
import {
  decideHandover,
  type HandoverStep,
  type MoveStep,
  type ObservedHandover,
} from './decide.ts';

export interface HandoverReconcilerOptions extends CommonNeeds {
  readonly audit: Audit;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'handovers'>;
  /** Why a limit on stored objects does not allow an owner this growth; undefined: it does. */
  readonly noRoomFor: (namespace: string, owner: string, growth: Totals) => string | undefined;
}

/** Maximum delay of a requeue, because the wall clock may be set in the meantime. */
const maxWaitMs = 3_600_000;
/** Delay before the pod of a paused sandbox is looked for again, should its watch be silent. */
const pauseCheckMs = 5_000;
/** Maximum steps of one reconcile: more than a handover has. */
const maxSteps = 16;

interface Observed extends ObservedHandover {
  readonly sandbox: Sandbox | undefined;
}

/**
 * Moves conversations with their sandboxes to other owners. Every step is decided on what the API
 * server has stored (`decide.ts`), and each write names the version that the decision was made on,
 * so that of two operators only one takes a step, and none takes it twice.
 */
export class HandoverReconciler {
  readonly #options: HandoverReconcilerOptions;

  constructor(options: HandoverReconcilerOptions) {
    this.#options = options;
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    for (let count = 0; count < maxSteps; count++) {
      const stored = await found(this.#options.client.get(handovers, namespace, name, { signal }));
      if (stored !== undefined && handovers.accepts?.(stored) === false) return undefined;
      const handover = stored ?? (await this.#orphaned({ namespace, name }, signal));
      if (handover === undefined) return undefined;
      const observed = await this.#observe(handover, signal);
      const step = decideHandover(observed);
      if (stored === undefined && !isMoveStep(step))
        return step.kind === 'wait-for-pause' ? { requeueAfterMs: pauseCheckMs } : undefined;
      const result = await this.#take(observed, step, signal);
      if (result !== 'again') return result;
    }
    return { requeueAfterMs: 1_000 };
  }

  async #take(
    observed: Observed,
    step: HandoverStep,
    signal: AbortSignal,
  ): Promise<Result | 'again'> {
    const { handover } = observed;
    const { client, clock, logger, audit } = this.#options;
    const { name: id } = handover.metadata;
    const { from, to, conversation } = handover.spec;
    const about = { handover: id, conversation: conversation.name, from, to };
    const line = { by: 'operator', ...about } as const;
    switch (step.kind) {
      case 'rest':
        if (handover.status?.phase === undefined)
          await this.#write(handover, { phase: 'Offered' }, signal);
        return { requeueAfterMs: Math.min(step.forMs, maxWaitMs) };
      case 'delete':
        await deleteObject({ client, signal }, handovers, handover);
        return undefined;
      case 'done':
        // The move has taken place. A line after the write would be lost with this process.
        audit('HandoverDone', line);
        await this.#write(handover, { phase: 'Done', finishedTime: isoTime(clock) }, signal);
        return 'again';
      case 'refuse': {
        const { reason, message } = step;
        const finishedTime = isoTime(clock);
        await this.#write(handover, { phase: 'Refused', reason, message, finishedTime }, signal);
        audit('HandoverRefused', { ...line, reason });
        return 'again';
      }
      case 'wait-for-pause':
        if (handover.status?.phase !== 'Moving')
          await this.#write(handover, { phase: 'Moving' }, signal);
        return { requeueAfterMs: pauseCheckMs };
      default:
        await this.#move(observed, step.kind, signal);
        logger.info('Handover step', { ...about, step: step.kind });
        return 'again';
    }
  }

  /** Takes one step with the version that the step was decided on. */
  async #move(
    { handover, conversation, sandbox, claim }: Observed,
    step: Exclude<MoveStep, 'wait-for-pause'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { to } = handover.spec;
    const lock = { name: handover.metadata.name, to };
    switch (step) {
      case 'lock-conversation':
        // An answer to the agent that is not recorded yet was the old owner's.
        return this.#patchConversation(
          conversation,
          { spec: { handover: lock, approvals: null } },
          signal,
        );
      case 'lock-sandbox':
        // The agent has the old owner's secrets in its memory, so its process has to end.
        return this.#patchSandbox(sandbox, { handover: lock, replicas: 0 }, signal);
      case 'move-sandbox':
        return this.#patchSandbox(
          sandbox,
          { owner: to, handovers: (sandbox?.spec.handovers ?? 0) + 1 },
          signal,
        );
      case 'move-claim':
        return this.#patchClaim(claim, to, signal);
      case 'drop-answer':
        return this.#patchConversation(
          conversation,
          { status: { approval: { answer: null } } },
          signal,
          'status',
        );
      case 'move-conversation':
        return this.#patchConversation(conversation, movedTo(to, conversation), signal);
      case 'unlock-sandbox':
        return this.#patchSandbox(sandbox, { handover: null }, signal);
      case 'unlock-conversation':
        return this.#patchConversation(conversation, { spec: { handover: null } }, signal);
    }
  }

  /**
   * A Handover that somebody has deleted, as its locks tell of it: a sandbox that has moved takes
   * its conversation with it, because its new owner had accepted; any other lock is removed.
   */
  async #orphaned(request: Request, signal: AbortSignal): Promise<Handover | undefined> {
    const { stores, client } = this.#options;
    const { namespace, name } = request;
    const key = `${namespace}/${name}`;
    const access = { client, signal };
    const [cachedSandbox] = stores.sandboxes.byIndex(byHandover, key);
    const [cached] = stores.conversations.byIndex(byHandover, key);
    const sandbox = cachedSandbox && (await storedObject(access, sandboxes, cachedSandbox));
    const named = cached ?? (sandbox && madeForOf(sandbox));
    const conversation = named && (await storedObject(access, conversations, named));
    const locked = [sandbox, conversation].find((one) => one?.spec.handover?.name === name);
    const { to } = locked?.spec.handover ?? {};
    if (to === undefined) return undefined;
    const { uid = '', name: of = '' } = conversation?.metadata ?? {};
    const isMoved = sandbox?.spec.owner === to;
    return {
      apiVersion: apiVersionOf(handovers),
      kind: handovers.kind,
      metadata: {
        namespace,
        name,
        uid: '',
        resourceVersion: '',
        creationTimestamp: '',
        generation: 0,
      },
      spec: {
        conversation: { name: of, uid },
        from: conversation?.spec.owner === to ? '' : (conversation?.spec.owner ?? ''),
        to,
        expirationTime: '',
        answer: { value: isMoved ? 'Accepted' : 'Withdrawn', by: to, time: '' },
      },
    };
  }

  async #observe(handover: Handover, signal: AbortSignal): Promise<Observed> {
    const { client, clock, noRoomFor } = this.#options;
    const { namespace, name } = handover.metadata;
    const access = { client, signal };
    const { name: of, uid } = handover.spec.conversation;
    const stored = await storedObject(access, conversations, {
      metadata: { namespace, name: of, uid },
    });
    const conversation =
      stored?.metadata.deletionTimestamp === undefined
        ? stored && cachedConversation(stored)
        : undefined;
    const sandbox =
      conversation === undefined
        ? await this.#lockedBy(namespace, name, signal)
        : await this.#sandboxOf(conversation, signal);
    const isPaused = sandbox?.spec.handover !== undefined;
    return {
      handover,
      conversation,
      sandbox,
      claim: sandbox && (await this.#claimOf(sandbox, signal)),
      isStopped: isPaused && (await this.#isStopped(sandbox, signal)),
      isShared:
        conversation !== undefined &&
        sandbox !== undefined &&
        this.#isShared(sandbox, conversation),
      noRoom:
        conversation?.spec.owner === handover.spec.to
          ? undefined
          : noRoomFor(namespace, handover.spec.to, {
              conversations: 1,
              storedBytes: conversation?.storedBytes ?? 0,
              sandboxes: sandbox === undefined ? 0 : 1,
            }),
      now: clock.now(),
    };
  }

  /** The sandbox that the status names, by UID, whatever its owner is during the move. */
  async #sandboxOf(
    { metadata: { namespace }, status }: CachedConversation,
    signal: AbortSignal,
  ): Promise<Sandbox | undefined> {
    const { sandboxName: name, sandboxUID: uid } = status ?? {};
    if (name === undefined || uid === undefined) return undefined;
    const { client } = this.#options;
    const stored = await storedObject({ client, signal }, sandboxes, {
      metadata: { namespace, name, uid },
    });
    return stored?.metadata.deletionTimestamp === undefined ? stored : undefined;
  }

  async #lockedBy(
    namespace: string,
    name: string,
    signal: AbortSignal,
  ): Promise<Sandbox | undefined> {
    const { client, stores } = this.#options;
    const [cached] = stores.sandboxes.byIndex(byHandover, `${namespace}/${name}`);
    return cached && storedObject({ client, signal }, sandboxes, cached);
  }

  async #claimOf(
    { metadata: { namespace, name } }: Sandbox,
    signal: AbortSignal,
  ): Promise<PersistentVolumeClaim | undefined> {
    return found(this.#options.client.get(persistentVolumeClaims, namespace, name, { signal }));
  }

  async #isStopped(sandbox: Sandbox, signal: AbortSignal): Promise<boolean> {
    const { replicas, podUID } = sandbox.status ?? {};
    if (replicas === 1 || podUID !== undefined) return false;
    const { namespace, name } = sandbox.metadata;
    const pod = await found(this.#options.client.get(pods, namespace, name, { signal }));
    return pod === undefined || !isOwnedBy(pod, sandbox);
  }

  /**
   * A conversation that joins a sandbox writes an owner reference to it, so that the version of the
   * sandbox tells of every join. A sandbox that was made on its own has no such references.
   */
  #isShared(sandbox: Sandbox, conversation: CachedConversation): boolean {
    const { uid, namespace } = conversation.metadata;
    const references = conversationReferencesOf(sandbox);
    const inIt = this.#options.stores.conversations.byIndex(
      bySandbox,
      `${namespace}/${sandbox.metadata.name}`,
    );
    return (
      madeForReferenceOf(sandbox)?.uid !== uid ||
      references.length > 1 ||
      inIt.some((other) => other.metadata.uid !== uid && isInSandbox(other, sandbox))
    );
  }

  async #patchConversation(
    conversation: CachedConversation | undefined,
    patch: { readonly metadata?: object; readonly spec?: object; readonly status?: object },
    signal: AbortSignal,
    subresource?: 'status',
  ): Promise<void> {
    if (conversation === undefined) throw new Error('the conversation of the step is missing');
    const { namespace, name, uid, resourceVersion } = conversation.metadata;
    await this.#options.client.mergePatch(
      conversations,
      namespace,
      name,
      { ...patch, metadata: { ...patch.metadata, uid, resourceVersion } },
      { signal, ...(subresource === undefined ? {} : { subresource }) },
    );
  }

  async #patchSandbox(
    sandbox: Sandbox | undefined,
    spec: object,
    signal: AbortSignal,
  ): Promise<void> {
    if (sandbox === undefined) throw new Error('the sandbox of the step is missing');
    const { namespace, name, uid, resourceVersion } = sandbox.metadata;
    const patch = { metadata: { uid, resourceVersion }, spec };
    await this.#options.client.mergePatch(sandboxes, namespace, name, patch, { signal });
  }

  async #patchClaim(
    claim: ObservedHandover['claim'],
    to: string,
    signal: AbortSignal,
  ): Promise<void> {
    if (claim === undefined) throw new Error('the volume claim of the step is missing');
    const { namespace = '', name, uid, resourceVersion } = claim.metadata;
    const metadata = { uid, resourceVersion, annotations: { [ownerAnnotation]: to } };
    await this.#options.client.mergePatch(
      persistentVolumeClaims,
      namespace,
      name,
      { metadata },
      { signal },
    );
  }

  async #write(handover: Handover, status: HandoverStatus, signal: AbortSignal): Promise<void> {
    await this.#options.client.updateStatus(handovers, { ...handover, status }, { signal });
  }
}

const isMoveStep = ({ kind }: HandoverStep): boolean =>
  !['rest', 'delete', 'done', 'refuse', 'wait-for-pause'].includes(kind);

/** The conversation that the sandbox was made for, as its owner references name it. */
function madeForOf(sandbox: Sandbox) {
  const reference = madeForReferenceOf(sandbox);
  const { namespace } = sandbox.metadata;
  return reference && { metadata: { namespace, name: reference.name, uid: reference.uid } };
}

/**
 * The secrets of the start were the old owner's, and so were messages and answers that no agent has
 * had: the agent would work for them with the secrets of the new owner, who has not read them.
 */
const movedTo = (owner: string, conversation: CachedConversation | undefined) => ({
  metadata: { annotations: { [secretsMacAnnotation]: null } },
  spec: {
    owner,
    handovers: (conversation?.spec.handovers ?? 0) + 1,
    secrets: null,
    messages: null,
    approvals: null,
    handover: null,
  },
});

const lockRequest = ({ metadata, spec }: CachedConversation | Sandbox): readonly Request[] =>
  spec.handover === undefined ? [] : [{ namespace: metadata.namespace, name: spec.handover.name }];

export function handoverController(
  caches: Pick<WatchedCaches, 'handovers' | 'conversations' | 'sandboxes'>,
  reconciler: HandoverReconciler,
): ControllerSpec {
  const offersOf = ({ metadata: { namespace, name } }: CachedConversation): readonly Request[] =>
    caches.handovers.store.byIndex(byHandoverConversation, `${namespace}/${name}`).map(requestOf);
  return {
    name: 'handover',
    workers: workers.handover,
    sources: [
      watch(caches.handovers, (handover) => [requestOf(handover)]),
      watch(caches.conversations, lockRequest, {
        isRelevant: (one, old) => one.spec.handover?.name !== old.spec.handover?.name,
      }),
      watch(caches.conversations, offersOf, {
        isRelevant: (one, old) =>
          one.spec.owner !== old.spec.owner || one.metadata.uid !== old.metadata.uid,
      }),
      watch(caches.sandboxes, lockRequest),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
