import type { KubeClient } from '@conversation-operator/kube/client';
import { found, isNotFound, isConflict, mayBeExecuted } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { isInSandbox } from '../../resources/sandbox-owner-references.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { notFound } from '../errors/common-problems.ts';
import type { ObjectFeed } from './object-feed.ts';

/**
 * Reads a conversation and its sandbox from the API server, because the cache may lag behind a
 * change by another replica. Throws 404 if the conversation is deleted.
 */
export async function storedWithSandbox(
  client: KubeClient,
  { metadata: { namespace, name, uid } }: Pick<CachedConversation, 'metadata'>,
): Promise<{ readonly conversation: Conversation; readonly sandbox: Sandbox | undefined }> {
  const conversation = await found(client.get(conversations, namespace, name));
  if (conversation?.metadata.uid !== uid) throw notFound('conversation');
  const { sandboxName } = conversation.status ?? {};
  if (sandboxName === undefined) return { conversation, sandbox: undefined };
  const named = await found(client.get(sandboxes, namespace, sandboxName));
  const isIn = named !== undefined && isInSandbox(conversation, named);
  return { conversation, sandbox: isIn ? named : undefined };
}

const maxAttempts = 5;

/**
 * Reads an object and calls `write` with it. Repeats both, at most 5 times in all, after an error
 * that `isPassing` accepts: by default a conflict.
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
 * Deletes the object with this UID; the garbage collector deletes its dependents. An object that is
 * already being deleted, or replaced by another one of its name, counts as deleted.
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
    // A request without a response may have deleted the object.
    const done =
      isNotFound(error) ||
      isConflict(error) ||
      (mayBeExecuted(error) && isGone(await found(client.get(resource, namespace, name))));
    if (!done) throw error;
  }
  await feed.settled(name, isGone);
}
