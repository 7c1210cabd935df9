import type { Conversation } from '../../resources/conversation.ts';
import type { Services } from '../app/services.ts';
import { conversationRecord } from '../views/conversation.ts';
import { startTaskRecord } from '../views/start-task.ts';

/** The wire record of a conversation, put together with what the caches know around it. */
export function recordOf(
  { records, exposure }: Services,
  conversation: Conversation,
  sandbox = records.sandboxNamed(conversation.status?.sandboxName),
) {
  const { spec } = conversation;
  return conversationRecord(
    {
      conversation,
      sandbox,
      parent: records.cachedConversation(spec.parent),
      children: records.children(conversation),
    },
    exposure,
  );
}

/** The same for a client that follows this one conversation: MISSING, which ends that for good, is not said because a cache is behind. */
export const freshRecordOf = async (services: Services, conversation: Conversation) =>
  recordOf(services, conversation, await services.records.sandboxOf(conversation));

export const taskOf = ({ records, exposure }: Services, conversation: Conversation) =>
  startTaskRecord(conversation, exposure.accessTo(records.sandboxNamed(conversation.status?.sandboxName)));
