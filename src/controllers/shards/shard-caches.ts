import type { Reflector } from '@conversation-operator/kube/reflector';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { Store } from '@conversation-operator/kube/store';
import type { OperatorCaches } from '../caches.ts';

/** Whether a shard has the namespace. */
export type OwnsNamespace = (namespace: string) => boolean;

type Cache<T extends KubeObject> = Pick<
  Reflector<KubeObject & T, T>,
  'store' | 'addHandler' | 'synced'
>;

/**
 * The caches of a process as the leader of one shard reads them: without the objects of namespaces
 * that belong to other shards. All shards share the watches of the process.
 */
export const shardCaches = (caches: OperatorCaches, owns: OwnsNamespace): OperatorCaches => ({
  conversations: shardCache(caches.conversations, owns),
  sandboxes: shardCache(caches.sandboxes, owns),
  templates: shardCache(caches.templates, owns),
  pools: shardCache(caches.pools, owns),
  quotas: shardCache(caches.quotas, owns),
  pods: shardCache(caches.pods, owns),
  claims: shardCache(caches.claims, owns),
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
  // The store's own array is returned where it holds no other object, which is the rule for an
  // index.
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
