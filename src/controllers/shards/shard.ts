import type { Reflector } from '@conversation-operator/kube/reflector';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { Store } from '@conversation-operator/kube/store';
import type { OperatorCaches } from '../caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { InterceptedClient } from '@conversation-operator/kube/intercepted-client';

/**
 * The shard of a namespace, from 0 to `shards` - 1. All releases and all processes compute the same
 * shard: 32 bits of FNV-1a over the UTF-8 text, mixed, modulo the number of shards.
 */
export function shardOf(namespace: string, shards: number): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(namespace, 'utf8'))
    hash = Math.imul(hash ^ byte, 0x0100_0193) >>> 0;
  return mixed(hash) % shards;
}

/**
 * The hash after the last step of MurmurHash3, by which all bits affect the low ones. The low bits
 * of FNV-1a depend only on the low bits of the characters, so that names of one pattern would share
 * a shard.
 */
function mixed(hash: number): number {
  let bits = hash;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

export type OwnsNamespace = (namespace: string) => boolean;

type Cache<T extends KubeObject> = Pick<
  Reflector<KubeObject & T, T>,
  'store' | 'addHandler' | 'synced'
>;

/**
 * The caches for the leader of one shard, without the objects in namespaces of other shards. All
 * shards share the watches of the process.
 */
export const shardCaches = (caches: OperatorCaches, owns: OwnsNamespace): OperatorCaches => ({
  conversations: shardCache(caches.conversations, owns),
  sandboxes: shardCache(caches.sandboxes, owns),
  templates: shardCache(caches.templates, owns),
  pools: shardCache(caches.pools, owns),
  quotas: shardCache(caches.quotas, owns),
  pods: shardCache(caches.pods, owns),
  claims: shardCache(caches.claims, owns),
  handovers: shardCache(caches.handovers, owns),
  usageRecords: shardCache(caches.usageRecords, owns),
});

function shardCache<T extends KubeObject>(cache: Cache<T>, owns: OwnsNamespace): Cache<T> {
  const isOwn = ({ metadata }: T) => owns(metadata.namespace ?? '');
  return {
    store: shardStore(cache.store, owns, isOwn),
    synced: (signal) => cache.synced(signal),
    addHandler: (handler) =>
      cache.addHandler({
        added: (object) => {
          if (isOwn(object)) handler.added?.(object);
        },
        updated: (object, old) => {
          if (isOwn(object)) handler.updated?.(object, old);
        },
        deleted: (object, finality) => {
          if (isOwn(object)) handler.deleted?.(object, finality);
        },
      }),
  };
}

function shardStore<T extends KubeObject>(
  store: Store<T>,
  owns: OwnsNamespace,
  isOwn: (object: T) => boolean,
): Store<T> {
  // Avoids a copy if all objects belong to the shard, as in most results of an index.
  const own = (objects: readonly T[]) => (objects.every(isOwn) ? objects : objects.filter(isOwn));
  return {
    get: (namespace, name) => (owns(namespace) ? store.get(namespace, name) : undefined),
    list: () => own(store.list()),
    byIndex: (index, value) => own(store.byIndex(index, value)),
    get size() {
      return own(store.list()).length;
    },
  };
}

/** The client of the leader of one shard. Lists omit objects in namespaces of other shards. */
export class ShardClient extends InterceptedClient {
  override readonly listMapped: KubeClient['listMapped'];
  override readonly list: KubeClient['list'] = (resource, options) =>
    this.listMapped(resource, (object) => object, options);

  constructor(client: KubeClient, owns: OwnsNamespace) {
    super(client, (_call, options, run) => run(options));
    this.listMapped = (resource, map, options) =>
      client.listMapped(
        resource,
        (object) => (owns(object.metadata.namespace ?? '') ? map(object) : undefined),
        options,
      );
  }
}
