import { startStatusOf } from '../../src/resources/conversation.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import type { Cluster } from './cluster.ts';
import { isIn, isMadeFor, conversationReferences } from './made-for.ts';

/** Nothing can run in a conversation's sandbox once the starts of all in it have failed. */
export function isFailedStart(
  { conversations }: Pick<Cluster, 'conversations'>,
  sandbox: Sandbox,
): boolean {
  const inIt = conversations.filter(
    (conversation) => isIn(sandbox, conversation) || isMadeFor(sandbox, conversation),
  );
  return (
    conversationReferences(conversations, sandbox).length > 0 &&
    inIt.length > 0 &&
    inIt.every((conversation) => startStatusOf(conversation) === 'ERROR')
  );
}
