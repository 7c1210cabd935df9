import type {
  CallOptions,
  KubeClient,
  ListOptions,
  ListResult,
  Mapping,
  ShorteningOptions,
} from '@conversation-operator/kube/client';
import { InterceptedClient } from '@conversation-operator/kube/intercepted-client';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { OwnsNamespace } from './shard-caches.ts';

/** The client of the leader of one shard: lists have no objects of other shards' namespaces. */
export class ShardClient extends InterceptedClient {
  readonly #owns: OwnsNamespace;

  constructor(client: KubeClient, owns: OwnsNamespace) {
    super(client, (_call, options, run) => run(options));
    this.#owns = owns;
  }

  override list<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    options?: ListOptions & CallOptions,
  ): Promise<ListResult<T>> {
    return this.listMapped(resource, (object) => object, options);
  }

  override listMapped<T extends KubeObject, R>(
    resource: ResourceDefinition<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & ShorteningOptions,
  ): Promise<ListResult<R>> {
    const mapOwn: Mapping<T, R> = (object, removedBytes) =>
      this.#owns(object.metadata.namespace ?? '') ? map(object, removedBytes) : undefined;
    return super.listMapped(resource, mapOwn, options);
  }
}
