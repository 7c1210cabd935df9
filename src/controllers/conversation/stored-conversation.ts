import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';

/** The conversation as the API server has it, with the texts that the cache lacks; undefined where it is gone or being deleted. */
export async function storedConversation(
  client: Pick<KubeClient, 'get'>,
  { metadata: { namespace, name, uid } }: Pick<CachedConversation, 'metadata'>,
  signal: AbortSignal,
): Promise<Conversation | undefined> {
  try {
    const stored = await client.get(conversations, namespace, name, { signal });
    return stored.metadata.uid === uid && stored.metadata.deletionTimestamp === undefined ? stored : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
