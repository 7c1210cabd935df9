import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { pods } from '@conversation-operator/kube/core';
import { unlessChanged } from '@conversation-operator/kube/errors';
import { isOwnedBy } from '@conversation-operator/kube/object';
import type { Sandbox } from '../../resources/sandbox.ts';
import { isInSandbox } from '../../resources/sandbox-owner-references.ts';
import { bySandbox, type Stores, type WatchedCaches } from '../caches.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import { hasEnded } from '../sandbox/decide.ts';
import { isUnderWay, isWorking } from '../../quota/idleness.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { CachedPod } from '../../resources/cached-core.ts';
import {
  disruptionAnnotations,
  keepsNode,
  letsNodeGo,
  safeToEvictAnnotation,
  type DisruptionAnnotation,
} from '../../resources/pod-disruption.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import {
  handle,
  watch,
  type ControllerSpec,
  maxPerOwner,
  ownerShare,
  workers,
} from '../controller-spec.ts';
import { sandboxOf } from '../sandbox/controller.ts';

/**
 * Delay in milliseconds before an idle pod permits autoscalers to remove its node. An agent whose
 * runs start and end every second causes no more than two writes in this time.
 */
export const quietMs = 60_000;

/**
 * Whether the end of the pod would interrupt this conversation: its start, a run in progress or
 * about to resume, the delivery of a message, or a question to a person, which some agents forget
 * with their container.
 */
export const needsNode = (conversation: CachedConversation): boolean =>
  isUnderWay(conversation) ||
  isWorking(conversation) ||
  conversation.status?.executionStatus === 'waiting_for_confirmation';

type DisruptionChange = Readonly<Partial<Record<DisruptionAnnotation, string | null>>>;

interface ObservedDisruption {
  readonly pod: CachedPod;
  /** Annotations of the template take precedence over those of the operator. */
  readonly template: SandboxTemplate | undefined;
  readonly isNeeded: boolean;
  /** Milliseconds for which this process has seen that no conversation needs the node. */
  readonly quietForMs: number;
}

interface DisruptionDecision {
  /** The annotations to write; null removes an annotation. Absent: the pod needs no write now. */
  readonly change?: DisruptionChange;
  /** Milliseconds until the annotations may change; absent when no change is pending. */
  readonly requeueAfterMs?: number;
}

export function decideDisruption(observed: ObservedDisruption): DisruptionDecision {
  const { pod, template, isNeeded, quietForMs } = observed;
  const wanted = isNeeded ? keepsNode : letsNodeGo;
  const ofTemplate = template?.spec.podTemplate.metadata?.annotations ?? {};
  const present = pod.metadata.annotations ?? {};
  const changed = disruptionAnnotations.filter(
    (key) => ofTemplate[key] === undefined && present[key] !== wanted[key],
  );
  if (changed.length === 0) return {};
  if (!isNeeded && quietForMs < quietMs) return { requeueAfterMs: quietMs - quietForMs };
  return { change: Object.fromEntries(changed.map((key) => [key, wanted[key] ?? null])) };
}

export interface DisruptionReconcilerOptions {
  readonly clock: Clock;
  readonly client: Pick<KubeClient, 'mergePatch'>;
  readonly stores: Pick<Stores, 'sandboxes' | 'conversations' | 'pods' | 'templates'>;
}

/**
 * Maintains the annotations of a sandbox's pod that permit or forbid autoscalers to remove its
 * node. A new leader writes only differences, and measures `quietMs` anew.
 */
export class DisruptionReconciler {
  readonly #options: DisruptionReconcilerOptions;
  readonly #needs: ElapsedTimes;

  constructor(options: DisruptionReconcilerOptions) {
    this.#options = options;
    this.#needs = new ElapsedTimes(options);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { client, stores } = this.#options;
    const sandbox = stores.sandboxes.get(namespace, name);
    const pod = stores.pods.get(namespace, name);
    if (sandbox === undefined || pod === undefined || !isOwnedBy(pod, sandbox)) return undefined;
    // An ended pod needs no change. The next pod is created with its own annotations.
    if (pod.metadata.deletionTimestamp !== undefined || hasEnded(pod)) return undefined;
    const { uid } = pod.metadata;
    const isNeeded = this.#isNeeded(sandbox);
    const { change, requeueAfterMs } = decideDisruption({
      pod,
      template: stores.templates.get(namespace, sandbox.spec.templateName),
      isNeeded,
      // The claim of a warm sandbox sets this annotation before the sandbox has a conversation. The
      // time then restarts, so that the pod keeps its node.
      quietForMs: this.#needs.lastsMs(
        uid,
        `${isNeeded} ${pod.metadata.annotations?.[safeToEvictAnnotation]}`,
      ),
    });
    if (change === undefined) return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
    // A pod that is deleted or replaced needs no write.
    await unlessChanged(
      client.mergePatch(
        pods,
        namespace,
        name,
        { metadata: { uid, annotations: change } },
        { signal },
      ),
    );
    return undefined;
  }

  forget(podUid: string): void {
    this.#needs.forget(podUid);
  }

  /** Whether a conversation in the sandbox needs the node; false for a warm sandbox. */
  #isNeeded(sandbox: Sandbox): boolean {
    const { namespace, name } = sandbox.metadata;
    return this.#options.stores.conversations
      .byIndex(bySandbox, `${namespace}/${name}`)
      .some((conversation) => isInSandbox(conversation, sandbox) && needsNode(conversation));
  }
}

const sandboxOfConversation = ({
  metadata: { namespace },
  status,
}: CachedConversation): readonly Request[] =>
  status?.sandboxName === undefined ? [] : [{ namespace, name: status.sandboxName }];

const isOtherNeed = (conversation: CachedConversation, old: CachedConversation): boolean =>
  needsNode(conversation) !== needsNode(old) ||
  conversation.status?.sandboxName !== old.status?.sandboxName;

const isOtherPod = (pod: CachedPod, old: CachedPod): boolean =>
  pod.metadata.uid !== old.metadata.uid ||
  disruptionAnnotations.some(
    (key) => pod.metadata.annotations?.[key] !== old.metadata.annotations?.[key],
  );

export function disruptionController(
  caches: Pick<WatchedCaches, 'conversations' | 'pods' | 'sandboxes'>,
  reconciler: DisruptionReconciler,
): ControllerSpec {
  const sandboxes = caches.sandboxes.store;
  return {
    name: 'disruption',
    workers: workers.disruption,
    shareOf: ({ namespace, name }) => ownerShare(sandboxes.get(namespace, name)),
    maxPerShare: maxPerOwner('disruption'),
    sources: [
      watch(caches.conversations, sandboxOfConversation, { isRelevant: isOtherNeed }),
      watch(caches.pods, sandboxOf, { isRelevant: isOtherPod }),
      handle(caches.pods, { deleted: ({ metadata: { uid } }) => reconciler.forget(uid) }),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
