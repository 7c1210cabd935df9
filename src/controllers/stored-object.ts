import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';

/** An object as the API server has it now; undefined where it is gone, or another one has its name. A watch may be behind for minutes. */
export async function storedObject<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: T,
  signal: AbortSignal,
): Promise<T | undefined> {
  try {
    const stored = await client.get(resource, namespace, name, { signal });
    return stored.metadata.uid === uid ? stored : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Deletes this very object. One that is gone, or has given its name to another, is as good as deleted. */
export async function deleteObject<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: T,
  signal: AbortSignal,
): Promise<void> {
  try {
    await client.delete(resource, namespace, name, { uid, signal });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
