import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists, isNotFound } from '@conversation-operator/kube/errors';
import type { Store } from '@conversation-operator/kube/store';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { startStatusOf, type ConversationStatus } from '../../../resources/conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../../resources/ids.ts';
import { apiVersionOf, isOwnedBy, ownerReferenceTo } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../../resources/sandbox.ts';
import { StartErrorCode, StartFailure } from './start-status.ts';
import { storedConversation } from '../stored-conversation.ts';

export interface SandboxAccess {
  readonly client: KubeClient;
  readonly store: Store<Sandbox>;
}

/**
 * The sandbox of a conversation, unless another of the same name has taken its place. The cache may not have it yet, or still the
 * one before it, so before it counts as gone the API server is asked.
 */
export async function findSandbox(
  { client, store }: SandboxAccess,
  namespace: string,
  { sandboxName, sandboxUID }: ConversationStatus & { readonly sandboxName: string },
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const isIt = ({ metadata: { uid } }: Sandbox) => sandboxUID === undefined || uid === sandboxUID;
  const cached = store.get(namespace, sandboxName);
  if (cached !== undefined && isIt(cached)) return cached;
  const stored = await storedSandbox(client, namespace, sandboxName, signal);
  return stored !== undefined && isIt(stored) ? stored : undefined;
}

/** The sandbox of this name as the API server has it. */
export async function storedSandbox(
  client: KubeClient,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  try {
    return await client.get(sandboxes, namespace, name, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * The sandbox that the conversation starts in: the one it names, or its own, created when it isn't there. Undefined: one of
 * the same name, but of an earlier conversation, is on its way out; ask again.
 */
export async function ensureSandbox(
  access: SandboxAccess,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  return conversation.spec.sandboxName === undefined
    ? ensureOwn(access, conversation, signal)
    : join(access, conversation, conversation.spec.sandboxName, signal);
}

async function ensureOwn(access: SandboxAccess, conversation: CachedConversation, signal: AbortSignal): Promise<Sandbox | undefined> {
  const { namespace } = conversation.metadata;
  const name = ownSandboxName(conversationIdOf(conversation));
  const { owner, templateName } = conversation.spec;
  let sandbox = access.store.get(namespace, name);
  if (sandbox === undefined) {
    if (!(await stillNeeds(access, conversation, signal))) return undefined;
    try {
      sandbox = await access.client.create(
        sandboxes,
        {
          apiVersion: apiVersionOf(sandboxes),
          kind: sandboxes.kind,
          metadata: { name, namespace, ownerReferences: [ownerReferenceTo(conversation, { controller: true })] },
          spec: { owner, templateName, replicas: 1 },
        },
        { signal },
      );
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      sandbox = await access.client.get(sandboxes, namespace, name, { signal });
    }
  }
  return isOwnedBy(sandbox, conversation) && sandbox.metadata.deletionTimestamp === undefined ? sandbox : undefined;
}

/**
 * Whether it is there and has not had its sandbox, as the API server knows it. For one that is gone, and that only the cache still
 * shows, a sandbox would be collected and made again, over and over; one that had its sandbox would begin its start a second time.
 */
async function stillNeeds({ client }: SandboxAccess, conversation: CachedConversation, signal: AbortSignal): Promise<boolean> {
  const stored = await storedConversation(client, conversation, signal);
  return stored !== undefined && startStatusOf(stored) === 'WORKING';
}

async function join(
  access: SandboxAccess,
  conversation: CachedConversation,
  name: string,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const { namespace } = conversation.metadata;
  // Not from the cache: whoever joins the one that is gone tells its agent what the new one should hear.
  const sandbox = await storedSandbox(access.client, namespace, name, signal);
  // Somebody else's sandbox is as good as none.
  if (sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined || sandbox.spec.owner !== conversation.spec.owner) {
    throw new StartFailure(StartErrorCode.sandboxNotFound, `There is no sandbox ${name}.`);
  }
  // One that was made for a conversation goes with the last that uses it. One that was made by hand stays.
  const references = sandbox.metadata.ownerReferences ?? [];
  if (references.length > 0 && !isOwnedBy(sandbox, conversation)) {
    // One whose start has failed, and that only the cache shows as starting, would keep it when all that use it are gone.
    if (!(await stillNeeds(access, conversation, signal))) return undefined;
    const { resourceVersion } = sandbox.metadata;
    const ownerReferences = [...references, ownerReferenceTo(conversation, { controller: false })];
    return access.client.mergePatch(sandboxes, namespace, name, { metadata: { resourceVersion, ownerReferences } }, { signal });
  }
  return sandbox;
}
