import type { KubeClient } from '@conversation-operator/kube/client';
import { found, unlessChanged } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';

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
  signal: AbortSignal | undefined,
): Promise<T | undefined> {
  const stored = await found(client.get(resource, namespace, name, signal && { signal }));
  return uid === undefined || stored?.metadata.uid === uid ? stored : undefined;
}

/**
 * Returns the conversation with the texts that the cache lacks; undefined when it is gone or being
 * deleted.
 */
export async function storedConversation(
  client: Pick<KubeClient, 'get'>,
  conversation: Pick<CachedConversation, 'metadata'>,
  signal: AbortSignal,
): Promise<Conversation | undefined> {
  const stored = await storedObject(client, conversations, conversation, signal);
  return stored?.metadata.deletionTimestamp === undefined ? stored : undefined;
}

/**
 * Deletes exactly this object. An object that is gone, or whose name another object has, counts as
 * deleted. With a `version` an object that has changed stays; its change brings another
 * reconcile.
 */
export async function deleteObject<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  { metadata: { namespace = '', name, uid } }: T,
  signal: AbortSignal,
  version: { readonly resourceVersion?: string } = {},
): Promise<void> {
  await unlessChanged(client.delete(resource, namespace, name, { ...version, uid, signal }));
}

/** Deletes an object unless it has changed. */
export const deleteVersion = <T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> => {
  const { resourceVersion } = object.metadata;
  return deleteObject(client, resource, object, signal, { resourceVersion });
};
