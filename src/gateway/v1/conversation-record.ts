import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Services } from '../services.ts';
import { notFound } from '../errors/problem-error.ts';
import type { ConversationSources } from '../presenters/conversation.ts';
import type { StartTexts } from '../lookup/start-texts.ts';

/** A conversation with what the caches know around it. */
export const sourcesOf = (
  { lookup }: Pick<Services, 'lookup'>,
  conversation: CachedConversation,
  sandbox = lookup.sandboxIn(conversation),
): ConversationSources => ({
  conversation,
  sandbox,
  parent: lookup.parentOf(conversation),
  children: lookup.children(conversation),
});

/**
 * The texts that its client has sent with the start. Throws a problem where the conversation does
 * not exist any more.
 */
export async function startTextsOf(
  { startTexts }: Services,
  conversation: CachedConversation,
): Promise<StartTexts> {
  const texts = await startTexts.of(conversation);
  if (texts === undefined) throw notFound('conversation');
  return texts;
}

/** The access of clients to the agent of a conversation, as far as the caches know. */
export const accessTo = ({ lookup, exposure }: Services, conversation: CachedConversation) =>
  exposure.accessTo(lookup.sandboxIn(conversation));
