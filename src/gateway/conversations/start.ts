import type { StartTextReader } from '../lookup/start-texts.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { RandomBytes } from '../auth/key.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { SettingsStore } from '../lookup/settings-store.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { GitDirectory } from '../git/static-directory.ts';
import type { Sealing } from '../../agent/sealing.ts';
import { createHash } from 'node:crypto';
import { found, isAlreadyExists, mayBeExecuted } from '@conversation-operator/kube/errors';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import {
  conversations,
  type Conversation,
  type ConversationSpec,
} from '../../resources/conversation.ts';
import { apiVersion } from '../../resources/group.ts';
import { newUuid } from '@conversation-operator/kube/uuid';
import { isDerivedForm } from '../../resources/ids.ts';
import { isModelAllowed } from '../../resources/allowed-models.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { storedBytesOf } from '../../resources/stored-size.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { ProblemCode } from '../errors/catalogue.ts';
import { ProblemError, notFound, unavailable } from '../errors/problem-error.ts';
import { capProblems, type StorageCaps } from '../lookup/storage-caps.ts';
import { chosenIdAnnotation } from '../presenters/start-task.ts';
import { compact } from '@conversation-operator/base/compact';
import { placeOf } from './idempotency.ts';
import { refuseOverQuota } from '../quota/quota.ts';
import { comesBackFromError, refuseUnusable, requestResume } from '../sandboxes/resume.ts';
import { messageOf, type StartRequest } from './schemas.ts';

/**
 * SHA-256 of the request that made a conversation, by which a repetition of the same start is
 * recognized.
 */
export const requestHashAnnotation = 'conversation-operator.dev/request-sha256';

/**
 * MAC of the secrets of that request under a key that follows from the master key. A hash without
 * a key would confirm a guess of a short secret, and sealed texts differ each time. During a
 * rotation, the MACs under the earlier master keys count too.
 */
export const secretsMacAnnotation = 'conversation-operator.dev/secrets-hmac-sha256';

/**
 * The text of a request for its hash, without the values of secrets. The order of the fields and
 * unknown fields do not matter, because the schema normalizes them.
 */
const textOf = ({ conversation_id: _id, secrets: _secrets, ...request }: StartRequest): Buffer =>
  Buffer.from(JSON.stringify(request));

/** Problems of `startConversation` beside those of any write. */
export const startProblems = [
  'repository-access-denied',
  'branch-not-found',
  'not-found',
  'wrong-state',
  'conversation-id-taken',
  'idempotency-key-reused',
  'model-not-allowed',
  'quota-exceeded',
  ...capProblems,
] as const satisfies readonly ProblemCode[];

/** What the contents of a new conversation need. */
interface ReferenceNeeds {
  readonly lookup: ResourceLookup;
  readonly settings: SettingsStore;
  readonly sealing: Sealing;
  readonly git: GitDirectory;
  readonly templateName: string;
}

/** What starts need, to store what `ReferenceNeeds` gives. */
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

/** The names behind a request's ids, which the owner may use. */
interface References {
  readonly templateName: string;
  readonly sandbox: Sandbox | undefined;
  /** Whether the sandbox is paused: without a resume the start would wait for ever. */
  readonly paused: boolean;
  /** Whether the sandbox has failed, and a resume brings it back. */
  readonly failed: boolean;
  readonly parent: string | undefined;
}

/** The object that a request names; throws 404 where there is no such object. */
async function named<T>(
  id: string | undefined,
  what: Parameters<typeof notFound>[0],
  find: (id: string) => Promise<T | undefined>,
): Promise<T | undefined> {
  const found = id === undefined ? undefined : await find(id);
  if (id !== undefined && found === undefined) throw notFound(what);
  return found;
}

async function resolve(
  { lookup, templateName }: ReferenceNeeds,
  owner: string,
  request: StartRequest,
): Promise<References> {
  const template = await named(request.sandbox_spec_id, 'sandbox spec', (id) =>
    lookup.template(id),
  );
  const parent = await named(request.parent_conversation_id, 'parent conversation', (id) =>
    lookup.conversation(owner, id),
  );
  const sandbox = await named(request.sandbox_id, 'sandbox', (id) => lookup.sandbox(owner, id));
  const phase = sandbox && viewOfSandbox(sandbox).phase;
  const failed = sandbox !== undefined && comesBackFromError(lookup, sandbox);
  if (phase !== undefined) refuseUnusable(phase, failed, ' and takes no conversation');
  return {
    templateName: sandbox?.spec.templateName ?? template?.metadata.name ?? templateName,
    sandbox,
    paused: phase === 'PAUSED',
    failed,
    parent: parent?.metadata.name,
  };
}

function specOf(
  owner: string,
  request: StartRequest,
  { templateName, sandbox, parent }: References,
  { model, secrets }: Pick<ConversationSpec, 'secrets'> & { readonly model: string | undefined },
): ConversationSpec {
  const { selected_repository: name, initial_message: message } = request;
  const checkout = compact({ branch: request.selected_branch, provider: request.git_provider });
  const agent = compact({
    type: request.agent_type,
    model,
    systemMessageSuffix: request.system_message_suffix,
    tools: request.tools,
    confirmationPolicy: request.confirmation_policy,
  });
  return {
    owner,
    templateName,
    ...compact({
      title: request.title === '' ? undefined : request.title,
      initialMessage: message === null ? undefined : messageOf(message),
      repository: name === undefined ? undefined : { name, ...checkout },
      secrets: secrets !== undefined && secrets.length > 0 ? secrets : undefined,
      sandboxName: sandbox?.metadata.name,
      agent: Object.keys(agent).length > 0 ? agent : undefined,
      parent,
      trigger: request.trigger,
      prNumbers: request.pr_number,
      public: request.public,
    }),
  };
}

interface Place {
  readonly name: string;
  /**
   * The stored conversation of this name: the answer where its request is equal, else a conflict.
   */
  readonly present?: CachedConversation | undefined;
}

async function placeFor(
  needs: StartNeeds,
  owner: string,
  request: StartRequest,
  idempotencyKey: string | undefined,
): Promise<Place> {
  const { conversation_id: chosen } = request;
  if (chosen !== undefined) {
    const present = await needs.lookup.conversation(owner, chosen);
    // Otherwise a client could take the name that another start, or a conversation of kubectl's, is
    // about to get.
    if (present === undefined && isDerivedForm(chosen)) throw taken(request);
    return { name: chosen, present };
  }
  if (idempotencyKey !== undefined) return placeOf(needs, owner, idempotencyKey);
  return { name: newUuid(needs.clock.now(), needs.random) };
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

/**
 * Throws 422 where the template does not allow the model. Without a template the start finds the
 * error.
 */
export function refuseModel(
  model: string,
  template: SandboxTemplate | undefined,
  { path, templateName }: { readonly path: string; readonly templateName: string },
): void {
  if (template === undefined || isModelAllowed(model, template.spec.agent)) return;
  throw new ProblemError(
    'model-not-allowed',
    `The sandbox spec ${templateName} does not allow the model ${model}.`,
    { errors: [{ path, message: 'must be a model that the sandbox spec allows' }] },
  );
}

/**
 * The model of a start: that of the request, else that of the owner's settings where the template
 * allows it. Undefined: the model of the template.
 */
async function modelFor(
  { lookup, settings }: ReferenceNeeds,
  owner: string,
  { llm_model: wanted }: StartRequest,
  { templateName }: References,
): Promise<string | undefined> {
  const model = wanted ?? settings.of(owner).model;
  if (model === undefined) return undefined;
  const template = await lookup.template(templateName);
  if (wanted !== undefined) refuseModel(wanted, template, { path: 'body.llm_model', templateName });
  const isUsable = template === undefined || isModelAllowed(model, template.spec.agent);
  return wanted ?? (isUsable ? model : undefined);
}

/** The text of the secrets of a start, for their MAC: the order of the names does not matter. */
const secretsText = (name: string, secrets: Readonly<Record<string, string>>): string =>
  JSON.stringify([name, Object.entries(secrets).sort(([one], [other]) => (one < other ? -1 : 1))]);

/** The secrets of a start, sealed for the conversation of this name. */
const sealedSecrets = (
  { sealing }: ReferenceNeeds,
  owner: string,
  conversation: string,
  { secrets = {} }: StartRequest,
): NonNullable<ConversationSpec['secrets']> =>
  Object.entries(secrets).map(([name, value]) => ({
    name,
    sealed: sealing.seal(value, { scope: 'start', owner, conversation, name }),
  }));

/**
 * Throws 403 or 422 when the git host lacks the repository or the branch. Without an answer of the
 * host, the clone decides.
 */
async function refuseUnknownRepository(
  { git }: ReferenceNeeds,
  owner: string,
  request: StartRequest,
): Promise<void> {
  const { selected_repository: repository, selected_branch: branch } = request;
  const check =
    repository === undefined
      ? 'unknown'
      : await git.access({ owner, provider: request.git_provider, repository, branch });
  if (check === 'denied')
    throw new ProblemError(
      'repository-access-denied',
      `There is no repository ${repository}, or you have no access to it.`,
    );
  if (check === 'branch-not-found')
    throw new ProblemError(
      'branch-not-found',
      `The repository ${repository} has no branch or tag ${branch}.`,
      {
        errors: [
          { path: 'body.selected_branch', message: 'must be a branch or tag of the repository' },
        ],
      },
    );
}

/**
 * Stores a conversation; everything else follows from that. The same id, or the same idempotency
 * key, with an equal request gives the conversation that is there already. A create without an
 * answer counts as done when a read then shows the conversation.
 */
export async function startConversation(
  needs: StartNeeds,
  owner: string,
  request: StartRequest,
  idempotencyKey?: string,
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

  // A repetition finds its conversation even when the objects that the request names no longer
  // exist.
  const { name: id, present: known } = await placeFor(needs, owner, request, idempotencyKey);
  if (known !== undefined && isOurs(known)) return known;
  if (known !== undefined) throw taken(request);
  const references = await resolve(needs, owner, request);
  const model = await modelFor(needs, owner, request, references);
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
    // Nearly: what is stored has other names for the same fields. To make the text of a large
    // object once more would take milliseconds.
    storedBytes:
      text.length +
      secrets.reduce((sum, { sealed }) => sum + sealed.length, 0) +
      storedBytesOf({ ...object, spec: { owner, templateName: references.templateName } }),
    sandboxes: references.sandbox === undefined ? 1 : 0,
  };
  const create = async (): Promise<Conversation> => {
    await refuseUnknownRepository(needs, owner, request);
    // The resume comes first, because a start that finds its sandbox in ERROR ends.
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
  const { written: created, reservation } = await caps.during(owner, growth, create);
  startTexts.keep(created);
  reservation.releaseWhenShown('conversations', id);
  const shown = await feeds.conversations.settled(id, (conversation) => conversation !== undefined);
  if (references.paused && references.sandbox !== undefined)
    await requestResume(needs, references.sandbox);
  return shown ?? cachedConversation(created);
}
