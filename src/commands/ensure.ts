import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import type { KubeObject, NewObject, ResourceDefinition } from '@conversation-operator/kube/object';

/**
 * Creates the object unless one of its name exists, so that later starts keep the changes of users.
 */
export async function ensure<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  object: NewObject<T>,
): Promise<void> {
  try {
    await client.create(resource, object);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}
