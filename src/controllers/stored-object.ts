import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';

/** Identity of an object. Without a UID every object of the name matches. */
export interface ObjectIdentity {
  readonly metadata: { readonly namespace?: string; readonly name: string; readonly uid?: string };
}

/**
 * Returns the object as the API server has it now; undefined when it is gone or another object has
 * its name. A cache can lag behind by minutes.
 */
export async function storedObject<T extends KubeObject>(
  client: Pick<KubeClient, 'get'>,
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: ObjectIdentity,
  signal: AbortSignal,
): Promise<T | undefined> {
  try {
    const stored = await client.get(resource, namespace, name, { signal });
    return uid === undefined || stored.metadata.uid === uid ? stored : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * Deletes exactly this object. An object that is gone, or whose name another object has, counts as
 * deleted.
 */
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
