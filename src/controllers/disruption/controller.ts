import type { Request } from '@conversation-operator/kube/controller';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { CachedPod } from '../../resources/cached-pod.ts';
import { disruptionAnnotations } from '../../resources/pod-disruption.ts';
import { needsNode, type DisruptionReconciler } from './reconcile.ts';
import type { WatchedCaches } from '../caches.ts';
import { handle, watch, type ControllerSpec } from '../event-source.ts';
import { sandboxOf } from '../sandbox/controller.ts';
import { maxPerOwner, ownerShare, workers } from '../workers.ts';

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

export interface DisruptionControllerOptions {
  readonly caches: Pick<WatchedCaches, 'conversations' | 'pods' | 'sandboxes'>;
  readonly reconciler: Pick<DisruptionReconciler, 'reconcile' | 'forget'>;
}

/** States on the pods of sandboxes whether autoscalers may empty their nodes. */
export function disruptionController(options: DisruptionControllerOptions): ControllerSpec {
  const { caches, reconciler } = options;
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
