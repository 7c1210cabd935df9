import type { KubeClient } from '@conversation-operator/kube/client';
import { Reflector } from '@conversation-operator/kube/reflector';
import type { RuntimeOptions } from '@conversation-operator/kube/runtime-options';
import type { Indexers } from '@conversation-operator/kube/store';
import {
  cachedClaim,
  type CachedClaim,
  cachedPod,
  type CachedPod,
} from '../resources/cached-core.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { cachedKinds } from '../resources/cached-kinds.ts';
import { isStartHeld, type Conversation } from '../resources/conversation.ts';
import type { ConversationQuota } from '../resources/conversation-quota.ts';
import type { Handover } from '../resources/handover.ts';
import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import { conversationIdOf } from '../resources/ids.ts';
import { Interner } from '../resources/cached-metadata.ts';
import type { SandboxPool } from '../resources/sandbox-pool.ts';
import { isWarmSandbox, managedBySelector, type Sandbox } from '../resources/sandbox.ts';
import {
  madeForReferenceOf,
  conversationReferencesOf,
} from '../resources/sandbox-owner-references.ts';
import type { SandboxTemplate } from '../resources/sandbox-template.ts';
import type { CachedUsageRecord, UsageRecord } from '../resources/usage-record.ts';

export interface CachesOptions extends RuntimeOptions {
  readonly client: KubeClient;
  /** The namespace that the caches cover; absent for all namespaces. */
  readonly namespace?: string;
  /** Indexes besides those of this file, for other readers of the same caches. */
  readonly indexers?: {
    readonly conversations?: Indexers<CachedConversation>;
    readonly sandboxes?: Indexers<Sandbox>;
    readonly handovers?: Indexers<Handover>;
  };
}

export interface Caches {
  readonly conversations: Reflector<Conversation, CachedConversation>;
  readonly sandboxes: Reflector<Sandbox>;
  readonly templates: Reflector<SandboxTemplate>;
  readonly pools: Reflector<SandboxPool>;
  readonly quotas: Reflector<ConversationQuota>;
  readonly pods: Reflector<Pod, CachedPod>;
  readonly claims: Reflector<PersistentVolumeClaim, CachedClaim>;
  readonly handovers: Reflector<Handover>;
  readonly usageRecords: Reflector<UsageRecord, CachedUsageRecord>;
}

/** The parts of the caches that controllers use. The process starts and stops the caches. */
export type OperatorCaches = {
  readonly [K in keyof Caches]: Pick<Caches[K], 'store' | 'addHandler' | 'synced'>;
};

/** The parts of the caches that one controller uses: the objects, and handlers of their events. */
export type WatchedCaches = {
  readonly [K in keyof Caches]: Pick<Caches[K], 'store' | 'addHandler'>;
};

/** The stores of the caches, for readers that need no events. */
export type Stores = { readonly [K in keyof Caches]: Caches[K]['store'] };

/** Index of conversations by `namespace/name` of their sandbox. */
export const bySandbox = 'sandbox';
/**
 * Index of conversations that a budget holds up, by `namespace/quota/name` of its quota and by
 * `namespace/record/name` of its UsageRecord.
 */
export const byExhaustedBudget = 'exhaustedBudget';
/** Index of conversations whose start waits for a budget, by namespace. */
export const byHeldStart = 'heldStart';
/** Index of conversations and sandboxes by `namespace/name` of the Handover that locks them. */
export const byHandover = 'handover';
const lockKeyOf = ({ metadata, spec }: CachedConversation | Sandbox): readonly string[] =>
  spec.handover === undefined ? [] : [`${metadata.namespace}/${spec.handover.name}`];
/** Index of conversations by `namespace/name/id`: their sandbox, and their ID at its agent. */
export const byAgentId = 'agentId';
export const conversationIndexers: Indexers<CachedConversation> = {
  [byHandover]: lockKeyOf,
  [byExhaustedBudget]: ({ metadata: { namespace }, status }) => {
    const { quota, record } = status?.budgetExhaustion ?? {};
    return [
      ...(quota === undefined ? [] : [`${namespace}/quota/${quota}`]),
      ...(record === undefined ? [] : [`${namespace}/record/${record}`]),
    ];
  },
  [byHeldStart]: (conversation) =>
    isStartHeld(conversation) ? [conversation.metadata.namespace] : [],
  [bySandbox]: ({ metadata, status }) =>
    status?.sandboxName === undefined ? [] : [`${metadata.namespace}/${status.sandboxName}`],
  [byAgentId]: (conversation) =>
    conversation.status?.sandboxName === undefined
      ? []
      : [
          `${conversation.metadata.namespace}/${conversation.status.sandboxName}/${conversationIdOf(conversation)}`,
        ],
};
/** Index of sandboxes by `namespace/name` of their template. */
export const byTemplate = 'template';
/** Index of warm sandboxes by `namespace/name` of their template. */
export const byWarmSandboxTemplate = 'warmSandboxTemplate';
/** Index of warm sandboxes by `namespace/name` of their pool. */
export const byWarmSandboxPool = 'warmSandboxPool';
/**
 * Index of sandboxes by `owner/uid`: the sandbox's owner, and the UID of the conversation for which
 * the sandbox was created or claimed. The owner in the key ensures that a conversation never finds
 * a sandbox of another owner.
 */
export const byMadeFor = 'madeFor';
export const madeForKeyOf = ({ metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>) =>
  `${spec.owner}/${metadata.uid}`;
/**
 * Index of sandboxes by the UID of each conversation in their owner references. The key has no
 * owner, because the owner is unknown until a cache shows the conversation.
 */
export const byNamed = 'named';
export const sandboxIndexers: Indexers<Sandbox> = {
  [byHandover]: lockKeyOf,
  [byNamed]: (sandbox) => conversationReferencesOf(sandbox).map(({ uid }) => uid),
  [byTemplate]: ({ metadata, spec }) => [`${metadata.namespace}/${spec.templateName}`],
  [byWarmSandboxTemplate]: (sandbox) =>
    isWarmSandbox(sandbox) ? [`${sandbox.metadata.namespace}/${sandbox.spec.templateName}`] : [],
  [byWarmSandboxPool]: (sandbox) =>
    isWarmSandbox(sandbox) ? [`${sandbox.metadata.namespace}/${sandbox.spec.poolName ?? ''}`] : [],
  [byMadeFor]: (sandbox) => {
    const reference = madeForReferenceOf(sandbox);
    return reference === undefined ? [] : [`${sandbox.spec.owner}/${reference.uid}`];
  },
};
/** Index of pools by `namespace/name` of their template. */
export const byPoolTemplate = 'template';
export const byNamespace = 'namespace';
export const poolIndexers: Indexers<SandboxPool> = {
  [byNamespace]: ({ metadata }) => [metadata.namespace],
  [byPoolTemplate]: ({ metadata, spec }) => [`${metadata.namespace}/${spec.templateName}`],
};

/** Index of Handovers by `namespace/name` of their conversation. */
export const byHandoverConversation = 'conversation';
export const handoverIndexers: Indexers<Handover> = {
  [byHandoverConversation]: ({ metadata, spec }) => [
    `${metadata.namespace}/${spec.conversation.name}`,
  ],
};

/** Index of UsageRecords by `namespace/name` of each conversation with an entry in them. */
export const byUsageConversation = 'usageConversation';
export const usageRecordIndexers: Indexers<CachedUsageRecord> = {
  [byUsageConversation]: ({ metadata, status }) =>
    (status?.conversations ?? []).map(({ name }) => `${metadata.namespace}/${name}`),
};

/** Creates the caches of the operator and does not start them. */
export function createCaches({ indexers: more, ...options }: CachesOptions): Caches {
  const interner = new Interner();
  const labelSelector = managedBySelector;
  const kinds = cachedKinds(interner);
  return {
    conversations: new Reflector({
      ...options,
      ...kinds.conversations,
      indexers: { ...conversationIndexers, ...more?.conversations },
    }),
    sandboxes: new Reflector({
      ...options,
      ...kinds.sandboxes,
      indexers: { ...sandboxIndexers, ...more?.sandboxes },
    }),
    templates: new Reflector({ ...options, ...kinds.templates }),
    pools: new Reflector({ ...options, ...kinds.pools, indexers: poolIndexers }),
    quotas: new Reflector({ ...options, ...kinds.quotas }),
    pods: new Reflector({
      ...options,
      labelSelector,
      resource: pods,
      transform: (object: Pod) => cachedPod(object, interner),
    }),
    claims: new Reflector({
      ...options,
      labelSelector,
      resource: persistentVolumeClaims,
      transform: (object: PersistentVolumeClaim) => cachedClaim(object, interner),
    }),
    handovers: new Reflector({
      ...options,
      ...kinds.handovers,
      indexers: { ...handoverIndexers, ...more?.handovers },
    }),
    usageRecords: new Reflector({
      ...options,
      ...kinds.usageRecords,
      indexers: usageRecordIndexers,
    }),
  };
}

export const storesOf = (caches: OperatorCaches): Stores => ({
  conversations: caches.conversations.store,
  sandboxes: caches.sandboxes.store,
  templates: caches.templates.store,
  pools: caches.pools.store,
  quotas: caches.quotas.store,
  pods: caches.pods.store,
  claims: caches.claims.store,
  handovers: caches.handovers.store,
  usageRecords: caches.usageRecords.store,
});

export const reflectorsOf = (caches: Caches) => Object.values(caches) as Caches[keyof Caches][];
