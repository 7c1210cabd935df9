import type { KubeClient } from '@conversation-operator/kube/client';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';

/** The namespace itself; for '', those that have objects of the kind. */
export async function namespacesOf(
  client: KubeClient,
  resource: ResourceDefinition<KubeObject>,
  namespace: string,
): Promise<readonly string[]> {
  if (namespace !== '') return [namespace];
  const { items } = await client.listMapped(resource, ({ metadata }) => metadata.namespace, {
    metadataOnly: true,
  });
  return [...new Set(items)].sort();
}
