import type { KubeClient } from '@conversation-operator/kube/client';
import { TransportError, isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { findStored } from '../lookup/find-stored.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';

interface Deletion {
  readonly client: KubeClient;
  readonly resource: ResourceDefinition<KubeObject>;
  /** The feed of the kind's cache. */
  readonly feed: Pick<ObjectFeed<KubeObject>, 'settled'>;
  readonly object: KubeObject;
}

/**
 * Deletes exactly this object; the garbage collector deletes the objects that it owns. An object
 * that is being deleted already, or that another one of its name has replaced, counts as deleted.
 */
export async function deleteOne({ client, resource, feed, object }: Deletion): Promise<void> {
  const { name, namespace = '', uid } = object.metadata;
  const isGone = (seen: KubeObject | undefined) =>
    seen?.metadata.uid !== uid || seen.metadata.deletionTimestamp !== undefined;
  try {
    await client.delete(resource, namespace, name, { uid, propagationPolicy: 'Background' });
  } catch (error) {
    // A request without an answer may have deleted the object.
    const done =
      isNotFound(error) ||
      isConflict(error) ||
      (error instanceof TransportError &&
        isGone(await findStored(client, resource, namespace, name)));
    if (!done) throw error;
  }
  await feed.settled(name, isGone);
}
