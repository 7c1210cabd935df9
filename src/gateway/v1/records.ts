import type { Conversation } from '../../resources/conversation.ts';
import type { Services } from '../app/services.ts';
import { conversationRecord } from '../views/conversation.ts';
import { startTaskRecord } from '../views/start-task.ts';

/** The wire record of a conversation, put together with what the caches know around it. */
export function recordOf({ records, exposure }: Services, conversation: Conversation) {
  const { spec, status } = conversation;
  return conversationRecord(
    {
      conversation,
      sandbox: records.sandboxNamed(status?.sandboxName),
      parent: records.cachedConversation(spec.parent),
      children: records.children(conversation),
    },
    exposure,
  );
}

export const taskOf = ({ records, exposure }: Services, conversation: Conversation) =>
  startTaskRecord(conversation, exposure.accessTo(records.sandboxNamed(conversation.status?.sandboxName)));
