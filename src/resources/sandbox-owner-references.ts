import type { OwnerReference } from '@conversation-operator/kube/object';
import type { CachedConversation } from './cached-conversation.ts';
import { conversations } from './conversation.ts';
import { group } from './group.ts';
import type { Sandbox } from './sandbox.ts';

type Described = Pick<Sandbox, 'metadata' | 'spec'>;

/**
 * Owner references of a sandbox to the conversations that it was made for or that joined it. Users
 * can write the metadata of their sandboxes, so a reference proves nothing about a conversation of
 * another owner. Therefore each reader requires that `spec.owner` of both objects is equal. It
 * changes only by a handover, and the admission policies reject a reference to a conversation of
 * another owner.
 */
export const conversationReferencesOf = ({
  metadata: { ownerReferences = [] },
}: Pick<Sandbox, 'metadata'>): readonly OwnerReference[] =>
  ownerReferences.filter(
    ({ apiVersion, kind }) => kind === conversations.kind && apiVersion.startsWith(`${group}/`),
  );

/** Owner reference of a sandbox to the conversation that it was made for, or that claimed it. */
export const madeForReferenceOf = (
  sandbox: Pick<Sandbox, 'metadata'>,
): OwnerReference | undefined =>
  conversationReferencesOf(sandbox).find(({ controller }) => controller === true);

/** Whether a sandbox has an owner reference to the conversation, and the same owner. */
export const isNamedBy = (
  { metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>,
  sandbox: Described,
): boolean =>
  sandbox.spec.owner === spec.owner &&
  conversationReferencesOf(sandbox).some(({ uid }) => uid === metadata.uid);

/**
 * Whether the status of the conversation names this sandbox. The uid and the owner are compared
 * too, because another owner can create a sandbox with this name after a deletion.
 */
export const isInSandbox = (
  {
    spec,
    status,
  }: Pick<CachedConversation, 'status'> & { readonly spec: { readonly owner: string } },
  sandbox: Described,
): boolean =>
  sandbox.metadata.name === status?.sandboxName &&
  sandbox.metadata.uid === (status.sandboxUID ?? sandbox.metadata.uid) &&
  sandbox.spec.owner === spec.owner;

/**
 * Whether a start may use a sandbox that the status of the conversation does not name, because the
 * operator crashed after it had created or claimed the sandbox. Owner, template and owner reference
 * must be as the operator sets them. A sandbox that an owner writes by hand permits no more than a
 * start.
 */
export const isMadeFor = (
  conversation: Pick<CachedConversation, 'metadata' | 'spec'>,
  sandbox: Described,
): boolean =>
  sandbox.spec.owner === conversation.spec.owner &&
  sandbox.spec.templateName === conversation.spec.templateName &&
  madeForReferenceOf(sandbox)?.uid === conversation.metadata.uid;
