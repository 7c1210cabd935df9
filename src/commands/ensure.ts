import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import type { KubeObject, NewObject, ResourceDefinition } from '@conversation-operator/kube/object';

/** Only where there is none of its name: afterwards it belongs to whoever edits it. */
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
