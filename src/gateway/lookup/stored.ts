import type { KubeClient } from '@conversation-operator/kube/client';
import {
  ApiError,
  found,
  isNotFound,
  isConflict,
  mayBeExecuted,
} from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { isInSandbox } from '../../resources/sandbox-owner-references.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { moving, notFound } from '../errors/common-problems.ts';
import type { ObjectFeed } from './object-feed.ts';

/**
 * Reads a conversation and its sandbox from the API server, because the cache may lag behind a
 * change by another replica. Throws 404 if the conversation is deleted.
 */
export async function storedWithSandbox(
  client: KubeClient,
  { metadata: { namespace, name, uid }, spec }: Pick<CachedConversation, 'metadata' | 'spec'>,
): Promise<{ readonly conversation: Conversation; readonly sandbox: Sandbox | undefined }> {
  const conversation = await found(client.get(conversations, namespace, name));
  if (conversation?.metadata.uid !== uid || conversation.spec.owner !== spec.owner)
    throw notFound('conversation');
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

interface Owned extends KubeObject {
  readonly spec: { readonly owner: string; readonly handover?: unknown };
}

/**
 * Checks a stored object before a write at its version: 404 if another owner has it or another
 * object has its name, 409 while it moves to another owner.
 */
export function refuseMoved(
  what: 'conversation' | 'sandbox',
  stored: Owned | undefined,
  known: { readonly metadata: { readonly uid: string }; readonly spec: { readonly owner: string } },
): void {
  const { metadata, spec } = known;
  if (
    stored?.metadata.uid !== metadata.uid ||
    stored.metadata.deletionTimestamp !== undefined ||
    stored.spec.owner !== spec.owner
  )
    throw notFound(what);
  if (stored.spec.handover !== undefined) throw moving();
}

/**
 * Runs a merge patch that has `spec.owner` as it was read, and no version. The API server refuses
 * the patch once the object has moved to another owner, and a resume while it moves.
 */
export function whileOwned<T>(what: 'conversation' | 'sandbox', patch: Promise<T>): Promise<T> {
  return patch.catch((error: unknown) => {
    const isOnly = (field: string) =>
      error instanceof ApiError &&
      error.status === 422 &&
      error.body.details?.causes?.some((cause) => cause.field === field) === true;
    if (isOnly('spec.owner')) throw notFound(what);
    if (isOnly('spec.replicas')) throw moving();
    throw error;
  });
}

/**
 * Deletes a conversation or a sandbox of this owner. The version that was read is a precondition,
 * so that a request which is late never deletes what has moved to another owner.
 */
export async function deleteOwned<T extends Owned>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  what: 'conversation' | 'sandbox',
  known: Pick<CachedConversation | Sandbox, 'metadata'> & {
    readonly spec: { readonly owner: string };
  },
  feed: Pick<ObjectFeed<KubeObject>, 'settled'>,
): Promise<void> {
  const { name, namespace, uid } = known.metadata;
  const isGone = (seen: KubeObject | undefined) =>
    seen?.metadata.uid !== uid || seen.metadata.deletionTimestamp !== undefined;
  await writeOnStored(
    () => found(client.get(resource, namespace, name)),
    async (stored) => {
      if (stored === undefined || isGone(stored)) return;
      refuseMoved(what, stored, known);
      const { resourceVersion } = stored.metadata;
      const options = { uid, resourceVersion, propagationPolicy: 'Background' } as const;
      await found(client.delete(resource, namespace, name, options));
    },
    (error) => isConflict(error) || mayBeExecuted(error),
  );
  await feed.settled(name, isGone);
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
