import type { Conversation } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Services } from '../app/services.ts';
import { conversationRecord, type ConversationSources } from '../views/conversation.ts';
import { startTaskRecord } from '../views/start-task.ts';

/** A conversation with what the caches know around it. */
export const sourcesOf = (
  { records }: Services,
  conversation: Conversation,
  sandbox = records.sandboxNamed(conversation.status?.sandboxName),
): ConversationSources => ({
  conversation,
  sandbox,
  parent: records.cachedConversation(conversation.spec.parent),
  children: records.children(conversation),
});

/** The wire record of a conversation. */
export const recordOf = (services: Services, conversation: Conversation, sandbox?: Sandbox) =>
  conversationRecord(sourcesOf(services, conversation, sandbox), services.exposure);

/** The same for a client that follows this one conversation: MISSING, which ends that for good, is not said because a cache is behind. */
export const freshRecordOf = async (services: Services, conversation: Conversation) =>
  recordOf(services, conversation, await services.records.sandboxOf(conversation));

export const taskOf = ({ records, exposure }: Services, conversation: Conversation) =>
  startTaskRecord(conversation, exposure.accessTo(records.sandboxNamed(conversation.status?.sandboxName)));
