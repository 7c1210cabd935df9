import { isLive } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isInSandbox } from '../../resources/sandbox-owner-references.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { inNamespace, type Cache } from './cache.ts';

/** The conversations of the owner in a sandbox, oldest first. */
export const conversationsIn = (
  { metadata, spec }: Sandbox,
  { store }: Cache<CachedConversation>,
): readonly CachedConversation[] =>
  store
    .byIndex('sandboxName', inNamespace(metadata.namespace, metadata.name))
    .filter((conversation) => isLive(conversation) && isInSandbox(conversation, { metadata, spec }))
    .toSorted((one, other) =>
      one.metadata.creationTimestamp < other.metadata.creationTimestamp ? -1 : 1,
    );
