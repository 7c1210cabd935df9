import type { SandboxKeys } from '../../../agent/keys.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../../resources/ids.ts';
import { ownerAnnotation } from '../../../resources/sandbox.ts';
import type { Stores } from '../../caches.ts';

/** Stores of the objects that have the name of a sandbox. */
export type NamedStores = Pick<Stores, 'sandboxes' | 'pods' | 'claims'>;

/**
 * Names for the sandbox of a conversation, in the order in which a start tries them. The first one
 * follows from the name of the conversation alone, so that a conversation of the same name
 * continues with a retained volume; another owner can compute that name, and take it first. The
 * other names are MACs of the UID of the conversation, one for each master key, which no owner can
 * compute.
 */
export const ownSandboxNames = (
  conversation: Pick<CachedConversation, 'metadata'>,
  keys: Pick<SandboxKeys, 'derivedIds'>,
): readonly string[] =>
  [conversationIdOf(conversation), ...keys.derivedIds(`sandbox/${conversation.metadata.uid}`)].map(
    ownSandboxName,
  );

/**
 * Whether a sandbox of another owner has the name, or a pod or a volume which that sandbox has
 * left: a start with this name would wait for an object of the other owner.
 */
export function isUsedByAnother(
  { sandboxes, pods, claims }: NamedStores,
  { namespace, name, owner }: Readonly<Record<'namespace' | 'name' | 'owner', string>>,
): boolean {
  const sandbox = sandboxes.get(namespace, name);
  if (sandbox !== undefined) return sandbox.spec.owner !== owner;
  return [pods.get(namespace, name), claims.get(namespace, name)].some(
    (left) => left !== undefined && left.metadata.annotations?.[ownerAnnotation] !== owner,
  );
}
