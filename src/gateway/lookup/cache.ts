import { sessionReferenceOf } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { Reflector } from '@conversation-operator/kube/reflector';
import { leases, type Lease } from '@conversation-operator/kube/core';
import type { RuntimeOptions } from '@conversation-operator/kube/runtime-options';
import type { Indexers } from '@conversation-operator/kube/store';
import type { ApiKey } from '../../resources/api-key.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { cachedKinds } from '../../resources/cached-kinds.ts';
import type { Handover } from '../../resources/handover.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { OwnerSettings } from '../../resources/owner-settings.ts';
import type { SandboxPool } from '../../resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { CachedUsageRecord } from '../../resources/usage-record.ts';
import type { Clock } from '@conversation-operator/base/clock';

/**
 * Caches a value that derives only from an object or array of a store. Objects and arrays of a
 * store never change, so the value stays valid; the garbage collector removes both together.
 */
export class Derived<S extends WeakKey, R extends WeakKey | string> {
  readonly #make: (source: S) => R;
  readonly #made = new WeakMap<S, R>();

  constructor(make: (source: S) => R) {
    this.#make = make;
  }

  of(source: S): R {
    const known = this.#made.get(source);
    if (known !== undefined) return known;
    const made = this.#make(source);
    this.#made.set(source, made);
    return made;
  }
}

export type Cache<T extends KubeObject> = Pick<
  Reflector<KubeObject, T>,
  'store' | 'addHandler' | 'hasSynced'
>;

/** A cache that also reports how recent its objects are. */
export type FreshCache<T extends KubeObject> = Cache<T> &
  Pick<Reflector<KubeObject, T>, 'freshness'>;

export interface Caches {
  readonly conversations: FreshCache<CachedConversation>;
  readonly sandboxes: FreshCache<Sandbox>;
  readonly templates: FreshCache<SandboxTemplate>;
  readonly quotas: FreshCache<ConversationQuota>;
  readonly apiKeys: FreshCache<ApiKey>;
  readonly ownerSettings: FreshCache<OwnerSettings>;
  readonly handovers: FreshCache<Handover>;
  readonly usageRecords: FreshCache<CachedUsageRecord>;
}

/**
 * Caches of kinds that only the overview on the page /operate shows. The gateway is ready without
 * them: if RBAC forbids a kind, the overview says so, and everything else works.
 */
export interface ServiceCaches {
  readonly pools: FreshCache<SandboxPool>;
  /** Absent if the operator runs in this process, and no leader is elected. */
  readonly leases?: FreshCache<Lease>;
}

/** An index value with its namespace, because a cache may span all namespaces. */
export const inNamespace = (namespace: string | undefined, value: string): string =>
  `${namespace ?? ''}/${value}`;

/** The indexers that the caches of a gateway must have. */
export const gatewayIndexers = {
  conversations: {
    owner: ({ metadata, spec }) => [inNamespace(metadata.namespace, spec.owner)],
    // Conversations whose name is their id are found by name, and need no entry in this index.
    restId: (conversation) => {
      const { namespace, name } = conversation.metadata;
      const id = conversationIdOf(conversation);
      return id === name ? [] : [inNamespace(namespace, id)];
    },
    sandboxName: ({ metadata, status }) =>
      status?.sandboxName === undefined
        ? []
        : [inNamespace(metadata.namespace, status.sandboxName)],
    parent: ({ metadata, spec }) =>
      spec.parent === undefined ? [] : [inNamespace(metadata.namespace, spec.parent)],
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
  handovers: {
    party: ({ metadata, spec }) => [
      inNamespace(metadata.namespace, spec.from),
      inNamespace(metadata.namespace, spec.to),
    ],
  },
} as const satisfies {
  readonly conversations: Indexers<CachedConversation>;
  readonly sandboxes: Indexers<Sandbox>;
  readonly apiKeys: Indexers<ApiKey>;
  readonly handovers: Indexers<Handover>;
};

export interface GatewayCachesOptions extends RuntimeOptions {
  readonly client: KubeClient;
  readonly namespace: string;
}

/** The caches of the relay for models, not started yet. */
export function relayCaches(options: GatewayCachesOptions) {
  const { conversations, sandboxes, templates, quotas } = cachedKinds();
  const indexers = gatewayIndexers;
  return {
    conversations: new Reflector({
      ...options,
      ...conversations,
      indexers: indexers.conversations,
    }),
    sandboxes: new Reflector({ ...options, ...sandboxes, indexers: indexers.sandboxes }),
    templates: new Reflector({ ...options, ...templates }),
    quotas: new Reflector({ ...options, ...quotas }),
  };
}

/** The caches of a gateway, not started yet. */
export function gatewayCaches(options: GatewayCachesOptions) {
  const kinds = cachedKinds();
  const { apiKeys, ownerSettings } = kinds;
  const indexers = gatewayIndexers;
  return {
    ...relayCaches(options),
    apiKeys: new Reflector({ ...options, ...apiKeys, indexers: indexers.apiKeys }),
    ownerSettings: new Reflector({ ...options, ...ownerSettings }),
    handovers: new Reflector({ ...options, ...kinds.handovers, indexers: indexers.handovers }),
    usageRecords: new Reflector({ ...options, ...kinds.usageRecords }),
  };
}

/** The caches of the overview, not started yet. */
export const serviceCaches = (options: GatewayCachesOptions) => ({
  pools: new Reflector({ ...options, ...cachedKinds().pools }),
  leases: new Reflector<Lease>({ ...options, resource: leases }),
});

/** Options of an `LRUCache` whose entries expire by this clock, to the millisecond. */
export const expiryBy = (clock: Clock) => ({
  ttlResolution: 0,
  perf: { now: () => clock.monotonic() },
});
