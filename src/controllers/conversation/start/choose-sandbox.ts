import type { Logger } from '@conversation-operator/base/logger';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { startStatusOf } from '../../../resources/conversation.ts';
import { type Sandbox, sandboxes, ownerAnnotation } from '../../../resources/sandbox.ts';
import { createErrorOf, retryAfterMs, type CreateError } from '../../sandbox/create-error.ts';
import { FailurePolicy } from '../../sandbox/failure.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';
import type { StartHold } from '../budget/start-hold.ts';
import { type Stage, StartErrorCode, StartFailure } from './stage.ts';
import { withDeadline, withDelay, withTransition } from './start-status.ts';
import type { StepDeadlines } from './step-deadlines.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import {
  apiVersionOf,
  isLive,
  isOwnedBy,
  ownerReferenceTo,
} from '@conversation-operator/kube/object';
import type { SandboxKeys } from '../../../agent/keys.ts';
import { isMadeFor } from '../../../resources/sandbox-owner-references.ts';
import { byMadeFor, madeForKeyOf, type Stores } from '../../caches.ts';
import { storedConversation, storedObject } from '../../stored-object.ts';
import { conversationIdOf, ownSandboxName } from '../../../resources/ids.ts';

export interface ChooseSandboxOptions extends StartAccess {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly configurations: AgentConfigurations;
  readonly deadlines: StepDeadlines;
  /** The reason why a limit rejects a start, if one does. Absent: there are no limits. */
  readonly refusalOf?:
    | ((
        conversation: CachedConversation,
      ) => { readonly code: string; readonly message: string } | undefined)
    | undefined;
  /** The exhausted budget for which a start waits, if one makes it wait. */
  readonly holdOf: (conversation: CachedConversation) => StartHold | undefined;
}

/** Delay before the creation of a sandbox is tried again. */
const retryMs = 1_000;

/** Cause of the delay of a start whose sandbox can not be created yet. */
const nameInUse = {
  code: StartErrorCode.sandboxNameTaken,
  message: 'The sandbox of an earlier conversation with this ID is still in use.',
};

/** Creates the sandbox of a start, or joins the sandbox that the conversation names. */
export const chooseSandbox =
  (options: ChooseSandboxOptions): Stage =>
  async ({ stored, status, sandbox, signal }) => {
    const { configurations, deadlines, clock, logger } = options;
    if (startStatusOf({ status }) !== 'WORKING') return { status };
    const refusal = options.refusalOf?.(stored);
    if (refusal !== undefined) throw new StartFailure(refusal.code, refusal.message);
    // A sandbox that an earlier attempt has made would stay, so its start goes on.
    const { sandboxes: made } = options.stores;
    const hold =
      made.byIndex(byMadeFor, madeForKeyOf(stored)).length > 0 ? undefined : options.holdOf(stored);
    if (hold !== undefined) {
      const { message, afterMs } = hold;
      const held = withDelay(status, { code: StartErrorCode.waitingForBudget, message });
      return { status: withDeadline(held, undefined), wait: { afterMs } };
    }
    // Throws for an invalid configuration before a sandbox is created.
    await configurations.check(stored);
    let chosen: Sandbox | undefined;
    let createError: CreateError | undefined;
    try {
      chosen = await ensureSandbox(options, stored, signal);
    } catch (error) {
      createError = createErrorOf(error, 'sandbox');
      if (createError === undefined) throw error;
      logger.info('creation was refused', {
        conversation: stored.metadata.name,
        what: 'sandbox',
        code: createError.code,
        error,
      });
    }
    if (chosen === undefined) {
      const delayed = withDelay(status, createError ?? nameInUse);
      // The time for which a start waits for room in a quota does not count for the deadline.
      if (createError?.policy === FailurePolicy.waiting) {
        const startingForMs = clock.now() - Date.parse(stored.metadata.creationTimestamp);
        return {
          status: withDeadline(delayed, undefined),
          wait: { afterMs: retryAfterMs(startingForMs) },
        };
      }
      return {
        status: deadlines.check({ stored, status: delayed, sandbox }),
        wait: { afterMs: retryMs },
      };
    }
    const { name, uid } = chosen.metadata;
    const named = { ...withDelay(status, undefined), sandboxName: name, sandboxUID: uid };
    return {
      sandbox: chosen,
      status: withTransition(named, { status: 'WAITING_FOR_SANDBOX', time: isoTime(clock) }),
    };
  };

/** Stores of the kinds whose objects have the name of a sandbox. */
export type NamedStores = Pick<Stores, 'sandboxes' | 'pods' | 'claims'>;

/**
 * Names for the sandbox of a conversation, in the order in which a start tries them. The first name
 * derives from the name of the conversation, so that a later conversation of the same name reuses a
 * retained volume. Another owner can compute this name and use it first. The other names are MACs
 * of the UID of the conversation, one for each master key, which no owner can compute.
 */
export const ownSandboxNames = (
  conversation: Pick<CachedConversation, 'metadata'>,
  keys: Pick<SandboxKeys, 'derivedIds'>,
): readonly string[] =>
  [conversationIdOf(conversation), ...keys.derivedIds(`sandbox/${conversation.metadata.uid}`)].map(
    ownSandboxName,
  );

/**
 * Whether a sandbox of another owner, or a leftover pod or volume of such a sandbox, has the name.
 * A start with this name would wait for an object of the other owner.
 */
function isUsedByAnother(
  { sandboxes, pods, claims }: NamedStores,
  { namespace, name, owner }: Readonly<Record<'namespace' | 'name' | 'owner', string>>,
): boolean {
  const sandbox = sandboxes.get(namespace, name);
  if (sandbox !== undefined) return sandbox.spec.owner !== owner;
  return [pods.get(namespace, name), claims.get(namespace, name)].some(
    (left) => left !== undefined && left.metadata.annotations?.[ownerAnnotation] !== owner,
  );
}

export interface StartAccess {
  readonly client: KubeClient;
  readonly stores: NamedStores;
  readonly keys: Pick<SandboxKeys, 'derivedIds'>;
  /** Claims a warm sandbox; undefined when none is available. Absent: there are no pools. */
  readonly claimWarmSandbox?:
    | ((conversation: CachedConversation, signal: AbortSignal) => Promise<Sandbox | undefined>)
    | undefined;
}

/**
 * The sandbox for the start: the one that the spec names, or the conversation's own, which is a
 * claimed warm sandbox or a new one. Undefined: a sandbox of the same owner still has the name, so
 * the caller has to try again. Throws `StartFailure` when other owners use every possible name.
 */
export const ensureSandbox = (
  access: StartAccess,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<Sandbox | undefined> =>
  (conversation.spec.sandboxName === undefined ? ensureOwn : join)(access, conversation, signal);

async function ensureOwn(
  access: StartAccess,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const { namespace } = conversation.metadata;
  const { owner } = conversation.spec;
  const known = access.stores.sandboxes
    .byIndex(byMadeFor, madeForKeyOf(conversation))
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
  const claimed = await access.claimWarmSandbox?.(conversation, signal);
  if (claimed !== undefined) return claimed;
  for (const free of names) {
    const sandbox = await createOrRead({ client: access.client, signal }, conversation, free);
    if (isMadeFor(conversation, sandbox)) return isLive(sandbox) ? sandbox : undefined;
    // This sandbox is of an earlier conversation of the same name, whose volume may be retained.
    if (sandbox.spec.owner === owner) return undefined;
  }
  throw new StartFailure(
    StartErrorCode.sandboxNameTaken,
    'Other owners use every name that the sandbox of the conversation may have.',
  );
}

/** Creates the sandbox of a conversation, or returns the existing one of that name. */
async function createOrRead(
  { client, signal }: { readonly client: KubeClient; readonly signal: AbortSignal },
  conversation: CachedConversation,
  name: string,
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
 * Whether the API server has the conversation, and its start has not got a sandbox yet. Without
 * this check, a deleted conversation that is still in the cache would get a new sandbox after each
 * garbage collection, and a conversation that already got a sandbox would start twice.
 */
async function stillNeeds(
  { client }: Pick<StartAccess, 'client'>,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<boolean> {
  const stored = await storedConversation({ client, signal }, conversation);
  return stored !== undefined && startStatusOf(stored) === 'WORKING';
}

async function join(
  access: Pick<StartAccess, 'client'>,
  conversation: CachedConversation,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const { sandboxName: name = '' } = conversation.spec;
  const { namespace } = conversation.metadata;
  // The cache may still show a deleted sandbox instead of a new one of the same name.
  const sandbox = await storedObject({ client: access.client, signal }, sandboxes, {
    metadata: { namespace, name },
  });
  // A sandbox of another owner is reported as missing, so that its existence stays unknown.
  if (
    sandbox === undefined ||
    sandbox.metadata.deletionTimestamp !== undefined ||
    sandbox.spec.owner !== conversation.spec.owner
  ) {
    throw new StartFailure(StartErrorCode.sandboxNotFound, `There is no sandbox ${name}.`);
  }
  if (sandbox.spec.handover !== undefined)
    throw new StartFailure(
      StartErrorCode.sandboxNotFound,
      `The sandbox ${name} moves to another owner.`,
    );
  // Owner references delete the sandbox with its last conversation. A sandbox without owner
  // references gets none, because it outlives its conversations.
  const references = sandbox.metadata.ownerReferences ?? [];
  if (references.length === 0 || isOwnedBy(sandbox, conversation)) return sandbox;
  // The cache may not show yet that this start has failed. An owner reference to this conversation
  // would then keep the sandbox after all others are deleted.
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
