import { isAlreadyExists } from '@conversation-operator/kube/errors';
import { apiVersionOf, isOwnedBy, ownerReferenceTo } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { startStatusOf } from '../../../resources/conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../../resources/ids.ts';
import { sandboxes, type Sandbox } from '../../../resources/sandbox.ts';
import { byMaker } from '../../caches.ts';
import { storedObject } from '../../stored-object.ts';
import type { SandboxAccess } from '../sandbox-lookup.ts';
import { storedConversation } from '../stored-conversation.ts';
import { StartErrorCode, StartFailure } from './start-failure.ts';

export type ClaimSpare = (
  conversation: CachedConversation,
  signal: AbortSignal,
) => Promise<Sandbox | undefined>;

interface StartAccess extends SandboxAccess {
  readonly claimSpare?: ClaimSpare | undefined;
}

/**
 * Returns the sandbox for the start: the sandbox that the spec names, or the conversation's own. A
 * spare of a pool becomes its own; without a spare, the function creates it if absent. Undefined: a
 * sandbox of an earlier conversation still has the name, so the caller has to try again.
 */
export async function ensureSandbox(
  access: StartAccess,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  return conversation.spec.sandboxName === undefined
    ? ensureOwn(access, conversation, signal)
    : join(access, conversation, conversation.spec.sandboxName, signal);
}

async function ensureOwn(
  access: StartAccess,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const { namespace } = conversation.metadata;
  const name = ownSandboxName(conversationIdOf(conversation));
  const { owner, templateName } = conversation.spec;
  const [claimedBefore] = access.store.byIndex(byMaker, conversation.metadata.uid);
  let sandbox = access.store.get(namespace, name) ?? claimedBefore;
  if (sandbox === undefined) {
    if (!(await stillNeeds(access, conversation, signal))) return undefined;
    const claimed = await access.claimSpare?.(conversation, signal);
    if (claimed !== undefined) return claimed;
    try {
      sandbox = await access.client.create(
        sandboxes,
        {
          apiVersion: apiVersionOf(sandboxes),
          kind: sandboxes.kind,
          metadata: {
            name,
            namespace,
            ownerReferences: [ownerReferenceTo(conversation, { controller: true })],
          },
          spec: { owner, templateName, replicas: 1 },
        },
        { signal },
      );
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      sandbox = await access.client.get(sandboxes, namespace, name, { signal });
    }
  }
  return isOwnedBy(sandbox, conversation) && sandbox.metadata.deletionTimestamp === undefined
    ? sandbox
    : undefined;
}

/**
 * Whether the API server has the conversation, and the conversation has not had its sandbox yet. A
 * sandbox for a deleted conversation that only the cache shows would be collected and created
 * again, over and over; a conversation that had its sandbox would start twice.
 */
async function stillNeeds(
  { client }: SandboxAccess,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<boolean> {
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
  // The cache may still show a deleted sandbox, whose agent would receive messages that are meant
  // for a new one.
  const sandbox = await storedObject(
    access.client,
    sandboxes,
    { metadata: { namespace, name } },
    signal,
  );
  // A sandbox of another owner is reported as absent.
  if (
    sandbox === undefined ||
    sandbox.metadata.deletionTimestamp !== undefined ||
    sandbox.spec.owner !== conversation.spec.owner
  ) {
    throw new StartFailure(StartErrorCode.sandboxNotFound, `There is no sandbox ${name}.`);
  }
  // A sandbox that was created for a conversation is deleted with its last conversation. A sandbox
  // without owner references stays.
  const references = sandbox.metadata.ownerReferences ?? [];
  if (references.length === 0 || isOwnedBy(sandbox, conversation)) return sandbox;
  // A conversation whose start has failed, which the cache does not show yet, would keep the
  // sandbox after all others are gone.
  if (!(await stillNeeds(access, conversation, signal))) return undefined;
  const { resourceVersion } = sandbox.metadata;
  const ownerReferences = [...references, ownerReferenceTo(conversation, { controller: false })];
  return access.client.mergePatch(
    sandboxes,
    namespace,
    name,
    { metadata: { resourceVersion, ownerReferences } },
    { signal },
  );
}
