import type { KubeClient } from '../kube/client.ts';
import { isAlreadyExists } from '../kube/errors.ts';
import type { KubeObject, NewObject, ResourceDefinition } from '../resources/object.ts';

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
