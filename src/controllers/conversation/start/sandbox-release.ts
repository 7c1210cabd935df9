import { byMadeFor, madeForKeyOf, type Stores } from '../../caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import {
  conversations,
  startStatusOf,
  type Conversation,
} from '../../../resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../../resources/sandbox.ts';
import { deleteVersion, storedConversation, storedObject } from '../../stored-object.ts';

export interface SandboxReleaseOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes'>;
}

/**
 * Whether the sandbox was made for the conversation, but the conversation does not use the sandbox.
 * A start writes the name of its sandbox to the status only once: a status with another name means
 * that the conversation never uses this sandbox. A start that failed before that write uses none.
 */
export function isUnusedBy(
  {
    metadata,
    spec,
    status,
  }: Pick<Conversation, 'metadata' | 'status'> & {
    readonly spec: Pick<Conversation['spec'], 'owner' | 'sandboxName'>;
  },
  sandbox: Sandbox,
): boolean {
  const [owner, ...joined] = sandbox.metadata.ownerReferences ?? [];
  return (
    owner?.uid === metadata.uid &&
    owner.controller === true &&
    joined.length === 0 &&
    spec.sandboxName === undefined &&
    sandbox.spec.owner === spec.owner &&
    sandbox.metadata.deletionTimestamp === undefined &&
    (status?.sandboxName === undefined
      ? startStatusOf({ status }) === 'ERROR'
      : status.sandboxName !== sandbox.metadata.name)
  );
}

/**
 * Deletes sandboxes that the start of a conversation has created or claimed and does not use: the
 * write got no response, and the start got another sandbox or failed. Before each deletion, the
 * conversation is read again. A sandbox that another conversation has joined has another
 * resourceVersion, and stays.
 */
export async function releaseUnusedClaims(
  { client, stores }: SandboxReleaseOptions,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<void> {
  for (const sandbox of stores.sandboxes.byIndex(byMadeFor, madeForKeyOf(conversation))) {
    if (!isUnusedBy(conversation, sandbox)) continue;
    const stored = await storedConversation({ client, signal }, conversation);
    if (stored === undefined || !isUnusedBy(stored, sandbox)) continue;
    await deleteVersion({ client, signal }, sandboxes, sandbox);
  }
}

/**
 * Deletes the sandbox that was created for a conversation whose start has failed; garbage
 * collection deletes pod, volume and slot. The sandbox stays while a conversation that joined it
 * has not failed. An owner reference to a conversation of another owner also keeps the sandbox. A
 * lagging cache does no harm: each change of the sandbox, and each start that fails, calls this
 * function again.
 */
export async function releaseSandbox(
  { client, stores }: SandboxReleaseOptions,
  failed: CachedConversation,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, uid: failedUid } = failed.metadata;
  const { sandboxName, sandboxUID } = failed.status ?? {};
  const hasFailed = (uid: string, name: string): boolean => {
    const other = stores.conversations.get(namespace, name);
    return (
      uid === failedUid ||
      (other?.metadata.uid === uid &&
        other.spec.owner === failed.spec.owner &&
        startStatusOf(other) === 'ERROR')
    );
  };
  const isUnused = ({
    metadata: { uid, deletionTimestamp, ownerReferences = [] },
    spec,
  }: Sandbox): boolean =>
    uid === sandboxUID &&
    spec.owner === failed.spec.owner &&
    deletionTimestamp === undefined &&
    ownerReferences.length > 0 &&
    ownerReferences.every(
      (owner) => owner.kind === conversations.kind && hasFailed(owner.uid, owner.name),
    );
  const cached =
    sandboxName === undefined ? undefined : stores.sandboxes.get(namespace, sandboxName);
  if (cached === undefined || !isUnused(cached)) return;
  const stored = await storedObject({ client, signal }, sandboxes, cached);
  if (stored === undefined || !isUnused(stored)) return;
  // If a conversation joins the sandbox in between, its resourceVersion changes, and it stays.
  await deleteVersion({ client, signal }, sandboxes, stored);
}
