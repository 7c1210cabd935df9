import type { FreshCache } from '../../src/gateway/lookup/cache.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { Finality, Handler } from '@conversation-operator/kube/reflector';
import { IndexedStore, type Indexers } from '@conversation-operator/kube/store';

/** A cache whose objects the test sets. */
export class TestCache<T extends KubeObject> implements FreshCache<T> {
  readonly store: IndexedStore<T>;
  readonly hasSynced = true;
  freshness = { newsAgeMs: 0, isInterrupted: false };
  readonly #handlers: Handler<T>[] = [];

  constructor(indexers: Indexers<T> = {}) {
    this.store = new IndexedStore<T>(indexers);
  }

  addHandler(handler: Handler<T>): () => void {
    this.#handlers.push(handler);
    for (const object of this.store.list()) handler.added?.(object);
    return () => void this.#handlers.splice(this.#handlers.indexOf(handler), 1);
  }

  set(object: T): void {
    const old = this.store.get(object.metadata.namespace ?? '', object.metadata.name);
    this.store.set(object);
    for (const handler of this.#handlers)
      if (old === undefined) handler.added?.(object);
      else handler.updated?.(object, old);
  }

  delete(
    { metadata: { namespace = '', name } }: Pick<T, 'metadata'>,
    finality: Finality = 'observed',
  ): void {
    const old = this.store.delete(namespace, name);
    for (const handler of this.#handlers) if (old !== undefined) handler.deleted?.(old, finality);
  }
}
