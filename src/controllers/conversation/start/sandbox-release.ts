import { byMaker, makerKeyOf, type Stores } from '../../caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { conversations, startStatusOf } from '../../../resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../../resources/sandbox.ts';
import { storedObject } from '../../stored-object.ts';
import { storedConversation } from '../stored-conversation.ts';

export interface SandboxReleaseOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes'>;
}

/**
 * Deletes spares that the start of a conversation has claimed and does not use: the outcome of the
 * claim was unknown, and the start got another sandbox. Each deletion follows a read of the
 * conversation, and names the version that no other conversation has joined.
 */
export async function releaseUnusedClaims(
  { client, stores }: SandboxReleaseOptions,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<void> {
  const isUnused = (
    sandbox: Sandbox,
    { sandboxUID }: { readonly sandboxUID?: string | undefined },
  ) =>
    sandboxUID !== undefined &&
    sandbox.metadata.uid !== sandboxUID &&
    sandbox.spec.poolName !== undefined &&
    sandbox.metadata.deletionTimestamp === undefined &&
    sandbox.metadata.ownerReferences?.length === 1;
  const claimed = stores.sandboxes.byIndex(byMaker, makerKeyOf(conversation));
  for (const sandbox of claimed) {
    if (!isUnused(sandbox, conversation.status ?? {})) continue;
    const stored = await storedConversation(client, conversation, signal);
    if (stored === undefined || !isUnused(sandbox, stored.status ?? {})) continue;
    const { namespace, name, uid, resourceVersion } = sandbox.metadata;
    try {
      await client.delete(sandboxes, namespace, name, { uid, resourceVersion, signal });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
}

/**
 * Deletes the sandbox that was created for a conversation whose start has failed; garbage
 * collection deletes pod, volume and slot. The sandbox stays as long as a conversation that joined
 * the sandbox has not failed. A cache that is behind does no harm: each change of the sandbox, and
 * each start that fails, calls this function again.
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
    return uid === failedUid || (other?.metadata.uid === uid && startStatusOf(other) === 'ERROR');
  };
  const isUnused = ({
    metadata: { uid, deletionTimestamp, ownerReferences = [] },
  }: Sandbox): boolean =>
    uid === sandboxUID &&
    deletionTimestamp === undefined &&
    ownerReferences.length > 0 &&
    ownerReferences.every(
      (owner) => owner.kind === conversations.kind && hasFailed(owner.uid, owner.name),
    );
  const cached =
    sandboxName === undefined ? undefined : stores.sandboxes.get(namespace, sandboxName);
  if (cached === undefined || !isUnused(cached)) return;
  const stored = await storedObject(client, sandboxes, cached, signal);
  if (stored === undefined || !isUnused(stored)) return;
  const { name, uid, resourceVersion } = stored.metadata;
  try {
    // A conversation that joins the sandbox changes its version, so the deletion fails.
    await client.delete(sandboxes, namespace, name, { uid, resourceVersion, signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
