import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';

/** Reads an object from the API server, not from a cache; undefined when there is none. */
export async function findStored<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  namespace: string,
  name: string,
): Promise<T | undefined> {
  try {
    return await client.get(resource, namespace, name);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
