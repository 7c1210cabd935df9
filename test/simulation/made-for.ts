import type { OwnerReference } from '@conversation-operator/kube/object';
import { conversations as kind, type Conversation } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';

/**
 * Whether the sandbox names the conversation as one of those that it was made for or that have
 * joined it. The owner of a sandbox writes its owner references, so a reference to a conversation
 * of another owner means nothing.
 */
export const isMadeFor = (
  { metadata: { ownerReferences = [] }, spec: { owner } }: Sandbox,
  { metadata: { uid }, spec }: Pick<Conversation, 'metadata' | 'spec'>,
): boolean => spec.owner === owner && ownerReferences.some((reference) => reference.uid === uid);

/** Whether the conversation's status has this very sandbox, not an earlier one of its name. */
export const isIn = (
  { metadata: { name, uid } }: Sandbox,
  { status }: Pick<Conversation, 'status'>,
): boolean =>
  status?.sandboxUID === undefined ? status?.sandboxName === name : status.sandboxUID === uid;

/** References of the sandbox to conversations, except those known to be of another owner. */
export const conversationReferences = (
  conversations: readonly Conversation[],
  sandbox: Sandbox,
): readonly OwnerReference[] =>
  (sandbox.metadata.ownerReferences ?? []).filter(
    (reference) =>
      reference.apiVersion === apiVersion &&
      reference.kind === kind.kind &&
      !conversations.some(
        ({ metadata, spec }) => metadata.uid === reference.uid && spec.owner !== sandbox.spec.owner,
      ),
  );
