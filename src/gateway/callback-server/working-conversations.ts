import type { Sandbox } from '../../resources/sandbox.ts';
import { type Cache, inNamespace } from '../lookup/cache.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';

/** Values of `status.start.status` during which the agent may work. */
const working: ReadonlySet<string | undefined> = new Set([
  'PREPARING_REPOSITORY',
  'SETTING_UP_SKILLS',
  'READY',
]);

/**
 * The conversations whose agent may work in the sandbox; empty once a user has paused the sandbox.
 * @param conversations A cache that has the index `sandboxName` of `gatewayIndexers`.
 */
export function workingConversations(
  conversations: Cache<CachedConversation>,
  { metadata, spec }: Sandbox,
): readonly CachedConversation[] {
  if (spec.replicas !== 1) return [];
  return conversations.store
    .byIndex('sandboxName', inNamespace(metadata.namespace, metadata.name))
    .filter(
      (conversation) =>
        conversation.spec.owner === spec.owner &&
        conversation.status?.sandboxUID === metadata.uid &&
        conversation.metadata.deletionTimestamp === undefined &&
        working.has(conversation.status.start?.status),
    );
}
