import type { KubeClient } from '@conversation-operator/kube/client';
import { found, unlessChanged } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';

interface Access {
  readonly client: Pick<KubeClient, 'get'>;
  readonly signal: AbortSignal | undefined;
}

/** Identity of an object. Without `uid`, any object with this name matches. */
export interface ObjectIdentity {
  readonly metadata: { readonly namespace?: string; readonly name: string; readonly uid?: string };
}

/**
 * Reads the object from the API server, because a cache can lag by minutes. Returns undefined when
 * the object is deleted, or when another object has its name.
 */
export async function storedObject<T extends KubeObject>(
  { client, signal }: Access,
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: ObjectIdentity,
): Promise<T | undefined> {
  const stored = await found(client.get(resource, namespace, name, signal && { signal }));
  return uid === undefined || stored?.metadata.uid === uid ? stored : undefined;
}

/** Reads the conversation with the texts that caches lack; undefined if deleted or terminating. */
export async function storedConversation(
  access: Access,
  conversation: Pick<CachedConversation, 'metadata'>,
): Promise<Conversation | undefined> {
  const stored = await storedObject(access, conversations, conversation);
  return stored?.metadata.deletionTimestamp === undefined ? stored : undefined;
}

interface DeleteAccess {
  readonly client: Pick<KubeClient, 'delete'>;
  readonly signal: AbortSignal;
}

/** Deletes the object with this UID, and succeeds if it is already deleted or replaced. */
export async function deleteObject<T extends KubeObject>(
  { client, ...options }: DeleteAccess & { readonly resourceVersion?: string },
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: T,
): Promise<void> {
  await unlessChanged(client.delete(resource, namespace, name, { ...options, uid }));
}

/** Deletes the object unless its version has changed. The change causes another reconcile. */
export const deleteVersion = <T extends KubeObject>(
  { client, signal }: DeleteAccess,
  resource: ResourceDefinition<T>,
  object: T,
): Promise<void> =>
  deleteObject(
    { client, signal, resourceVersion: object.metadata.resourceVersion },
    resource,
    object,
  );
