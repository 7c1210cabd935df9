import type { Stores } from '../caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Store } from '@conversation-operator/kube/store';
import { conversationQuotas, type ConversationQuota } from '../../resources/conversation-quota.ts';
import { pods, type Pod } from '@conversation-operator/kube/core';
import {
  managedBy,
  ownerAnnotation,
  sandboxes,
  slotTaken,
  type Sandbox,
} from '../../resources/sandbox.ts';
import type { SlotIndex } from './slot-index.ts';

export interface SeedOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'sandboxes'>;
  readonly index: SlotIndex;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called for every object that the API server has shown. */
  readonly onSeen: (object: Sandbox | ConversationQuota) => void;
}

/**
 * Lists the present state of the API server; the caches may be behind it.
 *
 * @returns The function that fills the index. The caller connects the watches before it calls that
 *   function: what they show as deleted in between counts as not seen, and is read again.
 */
export async function seed({
  client,
  stores,
  index,
  namespace,
  signal,
  onSeen,
}: SeedOptions): Promise<() => void> {
  const scope = {
    ...(namespace === undefined ? {} : { namespace }),
    ...(signal === undefined ? {} : { signal }),
  };
  const quotas = await client.list(conversationQuotas, scope);
  const present = await client.listMapped(
    sandboxes,
    (sandbox) => cachedOr(stores.sandboxes, sandbox),
    scope,
  );
  const labelSelector = Object.entries(managedBy)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
  // The pods are listed after the sandboxes: a pod without a listed sandbox has lost it, because no
  // operator creates pods now.
  const left = await client.listMapped(pods, ({ metadata }) => ({ metadata }), {
    ...scope,
    labelSelector,
  });
  return () => {
    for (const quota of quotas.items) {
      if (conversationQuotas.accepts?.(quota) === false) continue;
      index.observeQuota(quota);
      onSeen(quota);
    }
    for (const sandbox of present.items) {
      index.observe(sandbox);
      onSeen(sandbox);
    }
    for (const pod of left.items) seedPod(index, pod);
  };
}

/**
 * The cache's copy of the same version, so that memory holds one object per sandbox. Undefined for
 * an unknown schema.
 */
function cachedOr(store: Store<Sandbox>, sandbox: Sandbox): Sandbox | undefined {
  if (sandboxes.accepts?.(sandbox) === false) return undefined;
  const { namespace, name, uid, resourceVersion } = sandbox.metadata;
  const cached = store.get(namespace, name);
  return cached?.metadata.uid === uid && cached.metadata.resourceVersion === resourceVersion
    ? cached
    : sandbox;
}

function seedPod(index: SlotIndex, pod: Pick<Pod, 'metadata'>): void {
  const { namespace = '', name, annotations, ownerReferences } = pod.metadata;
  const owner = ownerReferences?.find(({ kind }) => kind === sandboxes.kind);
  if (owner === undefined) return;
  const known = index.sandbox(owner.uid);
  if (known !== undefined && slotTaken(known)) return;
  const sandbox: Sandbox = known ?? {
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    metadata: {
      name: owner.name,
      namespace,
      uid: owner.uid,
      resourceVersion: '0',
      generation: 1,
      creationTimestamp: pod.metadata.creationTimestamp,
    },
    spec: { owner: annotations?.[ownerAnnotation] ?? '', templateName: '', replicas: 0 },
  };
  index.addOrphaned({ sandboxUid: owner.uid, namespace, podName: name }, sandbox);
}
