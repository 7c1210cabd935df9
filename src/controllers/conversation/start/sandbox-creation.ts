import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import {
  apiVersionOf,
  isLive,
  isOwnedBy,
  ownerReferenceTo,
} from '@conversation-operator/kube/object';
import type { SandboxKeys } from '../../../agent/keys.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { startStatusOf } from '../../../resources/conversation.ts';
import { isMadeFor } from '../../../resources/sandbox-makers.ts';
import { sandboxes, type Sandbox } from '../../../resources/sandbox.ts';
import { byMaker, makerKeyOf } from '../../caches.ts';
import { storedConversation, storedObject } from '../../stored-object.ts';
import type { RecentAnswers } from '../recent-answers.ts';
import { isUsedByAnother, ownSandboxNames, type NamedStores } from './sandbox-names.ts';
import { StartErrorCode, StartFailure } from './start-failure.ts';

export interface StartAccess {
  readonly client: KubeClient;
  readonly stores: NamedStores;
  readonly keys: Pick<SandboxKeys, 'derivedIds'>;
  readonly answers: Pick<RecentAnswers, 'isJustStored'>;
  /**
   * Claims a spare of a pool for a start. Returns undefined when there is none for it. Absent:
   * there are no pools.
   */
  readonly claimSpare?:
    | ((conversation: CachedConversation, signal: AbortSignal) => Promise<Sandbox | undefined>)
    | undefined;
}

/**
 * Returns the sandbox for the start: the sandbox that the spec names, or the conversation's own. A
 * spare of a pool becomes its own; without a spare, the function creates it if absent. Undefined: a
 * sandbox of the same owner still has the name, so the caller has to try again. Throws
 * `StartFailure` when other owners use every name that the sandbox may have.
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
  const { owner } = conversation.spec;
  const known = access.stores.sandboxes
    .byIndex(byMaker, makerKeyOf(conversation))
    .filter((sandbox) => isMadeFor(conversation, sandbox));
  const usable = known.find(isLive);
  if (usable !== undefined || known.length > 0) return usable;
  const names = ownSandboxNames(conversation, access.keys).filter(
    (name) => !isUsedByAnother(access.stores, { namespace, name, owner }),
  );
  const [name] = names;
  if (name !== undefined && access.stores.sandboxes.get(namespace, name) !== undefined)
    return undefined;
  if (!(await stillNeeds(access, conversation, signal))) return undefined;
  const claimed = await access.claimSpare?.(conversation, signal);
  if (claimed !== undefined) return claimed;
  for (const free of names) {
    const sandbox = await createOrRead(access.client, conversation, free, signal);
    if (isMadeFor(conversation, sandbox)) return isLive(sandbox) ? sandbox : undefined;
    // The sandbox of an earlier conversation of this name, whose volume may be retained.
    if (sandbox.spec.owner === owner) return undefined;
  }
  throw new StartFailure(
    StartErrorCode.sandboxNameTaken,
    'Other owners use every name that the sandbox of the conversation may have.',
  );
}

/** Creates the sandbox of a conversation; returns the present one when the name is in use. */
async function createOrRead(
  client: KubeClient,
  conversation: CachedConversation,
  name: string,
  signal: AbortSignal,
): Promise<Sandbox> {
  const { namespace } = conversation.metadata;
  const { owner, templateName } = conversation.spec;
  const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];
  try {
    return await client.create(
      sandboxes,
      {
        apiVersion: apiVersionOf(sandboxes),
        kind: sandboxes.kind,
        metadata: { name, namespace, ownerReferences },
        spec: { owner, templateName, replicas: 1 },
      },
      { signal },
    );
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    return client.get(sandboxes, namespace, name, { signal });
  }
}

/**
 * Whether the API server has the conversation, and the conversation has not had its sandbox yet. A
 * sandbox for a deleted conversation that only the cache shows would be collected and created
 * again, over and over; a conversation that had its sandbox would start twice.
 */
async function stillNeeds(
  { client, answers }: Pick<StartAccess, 'client' | 'answers'>,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<boolean> {
  if (answers.isJustStored(conversation)) return true;
  const stored = await storedConversation(client, conversation, signal);
  return stored !== undefined && startStatusOf(stored) === 'WORKING';
}

async function join(
  access: Pick<StartAccess, 'client' | 'answers'>,
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
