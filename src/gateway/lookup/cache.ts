import { sessionReferenceOf } from '../../agent/keys.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { Indexers } from '../../kube/store.ts';
import type { ApiKey } from '../../resources/api-key.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { KubeObject } from '../../resources/object.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

/** As much of a reflector as the gateway needs. */
export type Cache<T extends KubeObject> = Pick<Reflector<KubeObject, T>, 'store' | 'addHandler' | 'hasSynced'>;

export interface Caches {
  readonly conversations: Cache<CachedConversation>;
  readonly sandboxes: Cache<Sandbox>;
  readonly templates: Cache<SandboxTemplate>;
  readonly quotas: Cache<ConversationQuota>;
  readonly apiKeys: Cache<ApiKey>;
}

/** Index values carry the namespace, since a cache may span them all. */
export const inNamespace = (namespace: string | undefined, value: string): string => `${namespace ?? ''}/${value}`;

/** The indexers that the caches handed to a gateway must have. */
export const gatewayIndexers = {
  conversations: {
    owner: ({ metadata, spec }) => [inNamespace(metadata.namespace, spec.owner)],
    restId: (conversation) => [inNamespace(conversation.metadata.namespace, conversationIdOf(conversation))],
    sandboxName: ({ metadata, status }) => (status?.sandboxName === undefined ? [] : [inNamespace(metadata.namespace, status.sandboxName)]),
    parent: ({ metadata, spec }) => (spec.parent === undefined ? [] : [inNamespace(metadata.namespace, spec.parent)]),
  },
  sandboxes: {
    owner: ({ metadata, spec }) => [inNamespace(metadata.namespace, spec.owner)],
    podIP: ({ status }) => (status?.podIP === undefined ? [] : [status.podIP]),
  },
  apiKeys: {
    sha256: ({ spec }) => [spec.sha256],
    sessionReference: ({ metadata }) => [sessionReferenceOf(metadata.uid)],
    owner: ({ metadata, spec }) => [inNamespace(metadata.namespace, spec.owner)],
  },
} as const satisfies {
  readonly conversations: Indexers<CachedConversation>;
  readonly sandboxes: Indexers<Sandbox>;
  readonly apiKeys: Indexers<ApiKey>;
};
