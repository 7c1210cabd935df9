import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound, isConflict, TransportError } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { ObjectFeed } from './object-feed.ts';

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

const maxAttempts = 5;

/**
 * Reads an object, and writes on the version that was read; again on the next version after a
 * failure that passes: a conflict, unless the caller names others as well.
 */
export async function writeOnStored<S, R>(
  read: () => Promise<S>,
  write: (stored: S) => Promise<R>,
  isPassing: (error: unknown) => boolean = isConflict,
): Promise<R> {
  for (let attempt = 1; ; attempt++) {
    const stored = await read();
    try {
      return await write(stored);
    } catch (error) {
      if (!isPassing(error) || attempt === maxAttempts) throw error;
    }
  }
}

/**
 * Deletes exactly this object; the garbage collector deletes the objects that it owns. An object
 * that is being deleted already, or that another one of its name has replaced, counts as deleted.
 */
export async function deleteOne(
  client: KubeClient,
  resource: ResourceDefinition<KubeObject>,
  { metadata: { name, namespace = '', uid } }: KubeObject,
  feed: Pick<ObjectFeed<KubeObject>, 'settled'>,
): Promise<void> {
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
