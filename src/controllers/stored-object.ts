import type { KubeClient } from '@conversation-operator/kube/client';
import { found, unlessChanged } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';

/** Client and signal of a read. */
interface Access {
  readonly client: Pick<KubeClient, 'get'>;
  readonly signal: AbortSignal | undefined;
}

/** Identity of an object. Without a UID every object of the name matches. */
export interface ObjectIdentity {
  readonly metadata: { readonly namespace?: string; readonly name: string; readonly uid?: string };
}

/**
 * The object from the API server; undefined when it is deleted or replaced by another of its name.
 * A cache can lag by minutes.
 */
export async function storedObject<T extends KubeObject>(
  { client, signal }: Access,
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: ObjectIdentity,
): Promise<T | undefined> {
  const stored = await found(client.get(resource, namespace, name, signal && { signal }));
  return uid === undefined || stored?.metadata.uid === uid ? stored : undefined;
}

/** The conversation with the texts that caches lack; undefined when deleted or being deleted. */
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

/** Deletes exactly this object. A deleted or replaced object counts as deleted. */
export async function deleteObject<T extends KubeObject>(
  { client, ...options }: DeleteAccess & { readonly resourceVersion?: string },
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: T,
): Promise<void> {
  await unlessChanged(client.delete(resource, namespace, name, { ...options, uid }));
}

/** Deletes an object unless it has changed; its change causes another reconcile. */
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
