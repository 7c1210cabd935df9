import type { Request } from '@conversation-operator/kube/controller';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { CachedPod } from '../../resources/cached-pod.ts';
import { disruptionAnnotations } from '../../resources/pod-disruption.ts';
import { needsNode, DisruptionReconciler } from './reconcile.ts';
import { handle, watch, type ControllerSpec } from '../event-source.ts';
import type { OperatorContext } from '../operator-context.ts';
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

/** States on the pods of sandboxes whether autoscalers may empty their nodes. */
export function disruptionController(context: OperatorContext): ControllerSpec {
  const { caches, stores } = context;
  const reconciler = new DisruptionReconciler(context);
  return {
    name: 'disruption',
    workers: workers.disruption,
    shareOf: ({ namespace, name }) => ownerShare(stores.sandboxes.get(namespace, name)),
    maxPerShare: maxPerOwner('disruption'),
    sources: [
      watch(caches.conversations, sandboxOfConversation, { isRelevant: isOtherNeed }),
      watch(caches.pods, sandboxOf, { isRelevant: isOtherPod }),
      handle(caches.pods, { deleted: ({ metadata: { uid } }) => reconciler.forget(uid) }),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
