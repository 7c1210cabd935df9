import type { KubeClient } from '@conversation-operator/kube/client';
import { InterceptedClient } from '@conversation-operator/kube/intercepted-client';
import type { OwnsNamespace } from './shard-caches.ts';

/** The client of the leader of one shard: lists have no objects of other shards' namespaces. */
export class ShardClient extends InterceptedClient {
  override readonly listMapped: KubeClient['listMapped'];
  override readonly list: KubeClient['list'] = (resource, options) =>
    this.listMapped(resource, (object) => object, options);

  constructor(client: KubeClient, owns: OwnsNamespace) {
    super(client, (_call, options, run) => run(options));
    this.listMapped = (resource, map, options) =>
      client.listMapped(
        resource,
        (object, removedBytes) =>
          owns(object.metadata.namespace ?? '') ? map(object, removedBytes) : undefined,
        options,
      );
  }
}
