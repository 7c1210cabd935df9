import { startStatusOf } from '../../src/resources/conversation.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import type { Cluster } from './cluster.ts';

/** Nothing can run any more in a sandbox that was made for a conversation, when the starts of all that are in it have failed. */
export function isFailedStart({ conversations }: Pick<Cluster, 'conversations'>, { metadata }: Sandbox): boolean {
  const { name, ownerReferences } = metadata;
  const inIt = conversations.filter(
    ({ metadata: { uid }, status }) => status?.sandboxName === name || ownerReferences?.some((owner) => owner.uid === uid) === true,
  );
  return ownerReferences !== undefined && inIt.length > 0 && inIt.every((conversation) => startStatusOf(conversation) === 'ERROR');
}
