import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { Exposure } from './sandbox.ts';
import { notFound } from '../errors/common-problems.ts';
import { type ConversationSources, presentConversation } from './conversation.ts';
import type { StartTextReader, StartTexts } from '../lookup/start-texts.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Reader } from '../auth/session-keys.ts';

/** A conversation with its related objects from the caches. */
export const sourcesOf = (
  lookup: ResourceLookup,
  conversation: CachedConversation,
  sandbox = lookup.sandboxIn(conversation),
): ConversationSources => ({
  conversation,
  sandbox,
  parent: lookup.parentOf(conversation),
  children: lookup.children(conversation),
});

/** The texts of a start. Throws a problem if the conversation does not exist. */
export async function startTextsOf(
  startTexts: StartTextReader,
  conversation: CachedConversation,
): Promise<StartTexts> {
  const texts = await startTexts.of(conversation);
  if (texts === undefined) throw notFound('conversation');
  return texts;
}

/** The access of clients to the agent of a conversation, according to the caches. */
export const accessTo = (
  { lookup, exposure }: { readonly lookup: ResourceLookup; readonly exposure: Exposure },
  conversation: CachedConversation,
) => exposure.accessTo(lookup.sandboxIn(conversation));

/** The record of a conversation, by default with the sandbox from the caches. */
export const conversationRecord = (
  { lookup, exposure }: { readonly lookup: ResourceLookup; readonly exposure: Exposure },
  conversation: CachedConversation,
  { reader, sandbox }: { readonly reader?: Reader; readonly sandbox?: Sandbox | undefined } = {},
) => presentConversation(sourcesOf(lookup, conversation, sandbox), exposure, reader);

/**
 * The record of a conversation for a client that polls it. Clients stop polling if the sandbox is
 * MISSING, so the API server is asked for a sandbox that the cache lacks.
 */
export async function freshRecord(
  needs: { readonly lookup: ResourceLookup; readonly exposure: Exposure },
  conversation: CachedConversation,
  reader: Reader,
) {
  const sandbox = await needs.lookup.sandboxOf(conversation);
  return conversationRecord(needs, conversation, { reader, sandbox });
}
