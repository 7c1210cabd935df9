import { requireTemplate, type KeyChain } from '../auth/key-ring.ts';
import type { StartTextReader } from '../lookup/start-texts.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { RandomBytes } from '../auth/key.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { SandboxKeys } from '../../agent/keys.ts';
import { createHash } from 'node:crypto';
import { found, isAlreadyExists, mayBeExecuted } from '@conversation-operator/kube/errors';
import {
  cachedConversation,
  type CachedConversation,
  storedBytesOf,
} from '../../resources/cached-conversation.ts';
import {
  conversations,
  secretsMacAnnotation,
  type Conversation,
} from '../../resources/conversation.ts';
import { apiVersion } from '../../resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { isDerivedForm } from '../../resources/ids.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import { type Sandbox } from '../../resources/sandbox.ts';
import type { ProblemCode } from '../errors/catalogue.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { unavailable } from '../errors/common-problems.ts';
import { capProblems, type StorageCaps } from '../lookup/storage-caps.ts';
import { placeOf } from './idempotency.ts';
import { refuseExhaustedBudget, refuseOverQuota } from '../quota/quota.ts';
import { requestResume } from '../sandboxes/resume.ts';
import { chosenIdAnnotation, type StartRequest } from '../presenters/start-fields.ts';

import {
  modelFor,
  referencesOf,
  refuseUnknownRepository,
  sealedSecrets,
  specOf,
  type ReferenceNeeds,
} from './start-request.ts';

/** SHA-256 of the request that created a conversation, to recognize a repeated start. */
export const requestHashAnnotation = 'conversation-operator.dev/request-sha256';

/**
 * The request without its secrets, as the text for its hash. Neither unknown fields nor the order
 * of the fields matter, because the schema normalizes them.
 */
const textOf = ({ conversation_id: _id, secrets: _secrets, ...request }: StartRequest): Buffer =>
  Buffer.from(JSON.stringify(request));

/** Problems of `startConversation`, in addition to those of every write. */
export const startProblems = [
  'repository-access-denied',
  'branch-not-found',
  'not-found',
  'wrong-state',
  'conversation-id-taken',
  'idempotency-key-reused',
  'model-not-allowed',
  'template-not-allowed',
  'quota-exceeded',
  'budget-exhausted',
  ...capProblems,
] as const satisfies readonly ProblemCode[];

export interface StartNeeds extends ReferenceNeeds {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly keys: Pick<SandboxKeys, 'derivedIds' | 'startSecretsMacs'>;
  readonly feeds: {
    readonly conversations: ObjectFeed<CachedConversation>;
    readonly sandboxes: ObjectFeed<Sandbox>;
  };
  readonly caps: StorageCaps;
  readonly startTexts: StartTextReader;
}

/** The name for the conversation, and the conversation that already has the name, if any. */
async function placeFor(
  needs: StartNeeds,
  owner: string,
  request: StartRequest,
  idempotencyKey: string | undefined,
): ReturnType<typeof placeOf> {
  const { conversation_id: chosen } = request;
  if (chosen !== undefined) {
    const present = await needs.lookup.conversation(owner, chosen);
    // A client must not choose a UUID of version 8, because another start, or a conversation that
    // kubectl creates, may be about to get it as a derived id.
    if (present === undefined && isDerivedForm(chosen)) throw taken(request);
    return { name: chosen, present };
  }
  if (idempotencyKey !== undefined) return placeOf(needs, owner, idempotencyKey);
  return { name: newUuid(needs.clock.now(), needs.random), present: undefined };
}

const taken = (request: StartRequest): ProblemError =>
  request.conversation_id === undefined
    ? new ProblemError(
        'idempotency-key-reused',
        'Another request was made with this Idempotency-Key within the last 24 hours.',
      )
    : new ProblemError(
        'conversation-id-taken',
        'A conversation with this id was started by another request, or the id is a UUID of version 8, which the service derives itself.',
      );

/** The secrets of a start as the text for their MAC; the order of the names does not matter. */
const secretsText = (name: string, secrets: Readonly<Record<string, string>>): string =>
  JSON.stringify([name, Object.entries(secrets).sort(([one], [other]) => (one < other ? -1 : 1))]);

/**
 * Creates a Conversation, from which the operator does everything else. An equal request with the
 * same id or idempotency key returns the existing conversation. A create without a response counts
 * as successful when a read then shows the conversation.
 */
export async function startConversation(
  needs: StartNeeds,
  owner: string,
  request: StartRequest,
  {
    chain,
    idempotencyKey,
  }: { readonly chain: KeyChain; readonly idempotencyKey?: string | undefined },
): Promise<CachedConversation> {
  const { client, namespace, feeds, caps, startTexts, keys } = needs;
  const text = textOf(request);
  const hash = createHash('sha256').update(text).digest('hex');
  const macsOf = (name: string): readonly (string | undefined)[] =>
    request.secrets === undefined
      ? [undefined]
      : keys.startSecretsMacs(secretsText(name, request.secrets));
  const isOurs = ({ metadata, spec }: Pick<CachedConversation, 'metadata' | 'spec'>) =>
    spec.owner === owner &&
    metadata.deletionTimestamp === undefined &&
    metadata.annotations?.[requestHashAnnotation] === hash &&
    macsOf(metadata.name).includes(metadata.annotations[secretsMacAnnotation]);

  // A repeated request finds its conversation even after objects that it names are deleted.
  const { name: id, present: known } = await placeFor(needs, owner, request, idempotencyKey);
  if (known !== undefined && isOurs(known)) return known;
  if (known !== undefined) throw taken(request);
  const references = await referencesOf(needs, owner, request);
  requireTemplate(chain, references.templateName);
  const model = await modelFor(needs, owner, request, references);
  refuseExhaustedBudget(needs.lookup, owner, needs.clock.now());
  if (references.sandbox === undefined || references.paused || references.failed)
    refuseOverQuota(needs.lookup, owner);
  const secrets = sealedSecrets(needs, owner, id, request);
  const spec = specOf(owner, request, references, { model, secrets });
  const [mac] = macsOf(id);
  const object: NewObject<Conversation> = {
    apiVersion,
    kind: conversations.kind,
    metadata: {
      namespace,
      name: id,
      annotations: {
        [requestHashAnnotation]: hash,
        ...(mac === undefined ? {} : { [secretsMacAnnotation]: mac }),
        ...(request.conversation_id === undefined ? {} : { [chosenIdAnnotation]: 'true' }),
      },
    },
    spec,
  };
  const growth = {
    conversations: 1,
    // The size is approximate, because serializing a large object again would take milliseconds.
    storedBytes:
      text.length +
      secrets.reduce((sum, { sealed }) => sum + sealed.length, 0) +
      storedBytesOf({ ...object, spec: { owner, templateName: references.templateName } }),
    sandboxes: references.sandbox === undefined ? 1 : 0,
  };
  const create = async (): Promise<Conversation> => {
    await refuseUnknownRepository(needs, owner, request);
    // The resume comes first, because a start fails while its sandbox is in ERROR.
    if (references.failed && references.sandbox !== undefined)
      await requestResume(needs, references.sandbox);
    return client
      .create(conversations, object, { metadataOnly: true })
      .catch(async (error: unknown) => {
        if (!isAlreadyExists(error) && !mayBeExecuted(error)) throw error;
        const present = await found(client.get(conversations, namespace, id));
        if (present === undefined) throw unavailable(undefined, error);
        if (!isOurs(present)) throw taken(request);
        return present;
      });
  };
  const { created, shown } = await caps.during(owner, growth, async () => {
    const created = await create();
    startTexts.keep(created);
    const isShown = (conversation: CachedConversation | undefined) => conversation !== undefined;
    return { created, shown: await feeds.conversations.settled(id, isShown) };
  });
  if (references.paused && references.sandbox !== undefined)
    await requestResume(needs, references.sandbox);
  return shown ?? cachedConversation(created);
}
