import type { KubeClient } from '@conversation-operator/kube/client';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { storedObject } from '../stored-object.ts';

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
