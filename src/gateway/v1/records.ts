import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Services } from '../app/services.ts';
import { notFound } from '../errors/problem-error.ts';
import type { Reader } from '../proxy/session-keys.ts';
import { conversationRecord, type ConversationSources } from '../views/conversation.ts';
import type { StartTexts } from '../views/start-request.ts';
import { startTaskRecord } from '../views/start-task.ts';

/** A conversation with what the caches know around it. */
export const sourcesOf = (
  { records }: Services,
  conversation: CachedConversation,
  sandbox = records.sandboxNamed(conversation.status?.sandboxName),
): ConversationSources => ({
  conversation,
  sandbox,
  parent: records.cachedConversation(conversation.spec.parent),
  children: records.children(conversation),
});

/** The wire record of a conversation, without a session key. */
export const recordOf = (services: Services, conversation: CachedConversation) =>
  conversationRecord(sourcesOf(services, conversation), services.exposure);

/** The record for a client that follows this one conversation: MISSING, which ends that for good, is not said because a cache is behind. */
export async function freshRecordOf(services: Services, conversation: CachedConversation, reader: Reader) {
  const sandbox: Sandbox | undefined = await services.records.sandboxOf(conversation);
  return conversationRecord(sourcesOf(services, conversation, sandbox), services.exposure, reader);
}

/** What its client has sent with the start. Throws a problem where the conversation does not exist any more. */
export async function startTextsOf({ startTexts }: Services, conversation: CachedConversation): Promise<StartTexts> {
  const texts = await startTexts.of(conversation);
  if (texts === undefined) throw notFound('conversation');
  return texts;
}

export async function taskOf(services: Services, conversation: CachedConversation) {
  const { records, exposure } = services;
  const texts = await startTextsOf(services, conversation);
  return startTaskRecord(conversation, texts, exposure.accessTo(records.sandboxNamed(conversation.status?.sandboxName)));
}
