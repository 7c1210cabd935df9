import {
  isStartOver,
  startStatusOf,
  type Conversation,
  type ConversationSpec,
  type LaterMessage,
  type Message,
} from './conversation.ts';
import { withoutText } from './approval.ts';
import type { ConversationStatus } from './conversation-status.ts';
import { firstWords, maxReadLength } from './plain-text.ts';
import type { CustomObject } from './group.ts';
import { cachedMetadata, Interner } from './cached-metadata.ts';
import type { CachedMetadata } from '@conversation-operator/kube/object';

/** Bytes for `maxStoredBytes`: the UTF-8 JSON of spec and of metadata without managedFields. */
export const storedBytesOf = ({
  metadata,
  spec,
}: Pick<Conversation, 'spec'> & { readonly metadata: object }): number =>
  Buffer.byteLength(JSON.stringify({ metadata: { ...metadata, managedFields: undefined }, spec }));

/** A message without its content. */
export type CachedMessage = Omit<Message, 'content'>;
export type CachedLaterMessage = Omit<LaterMessage, 'content'>;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type AgentSettings = NonNullable<ConversationSpec['agent']>;

export interface CachedConversationSpec extends Omit<
  ConversationSpec,
  'initialMessage' | 'messages' | 'agent' | 'secrets'
> {
  readonly initialMessage?: CachedMessage | undefined;
  readonly messages?: readonly CachedLaterMessage[] | undefined;
  readonly agent?: Omit<AgentSettings, 'systemMessageSuffix'> | undefined;
  /** Names of the secrets, without the encrypted values. */
  readonly secrets?: readonly { readonly name: string }[] | undefined;
}

/**
 * A conversation as caches hold it, without the texts that its owner has stored, which may take a
 * mebibyte. Readers of a text get the object from the API server. Labels, finalizers and
 * annotations of other programs are absent too.
 */
export interface CachedConversation extends Omit<
  CustomObject<CachedConversationSpec, ConversationStatus>,
  'metadata'
> {
  readonly metadata: CachedMetadata & Pick<Conversation['metadata'], 'namespace' | 'generation'>;
  /** Result of `storedBytesOf` for the stored object. */
  readonly storedBytes: number;
  /** The beginning of the first message, for a title; empty if the message has no text. */
  readonly firstWords: string;
  /** Whether `status.start.steps` is absent, because the start is over and its output is large. */
  readonly lacksSteps: boolean;
}

/** Whether caches hold this conversation without the steps of its start. */
export const lacksStepsInCaches = (stored: Conversation): boolean =>
  isStartOver(startStatusOf(stored)) &&
  stored.status?.start?.steps?.some(({ output }) => output !== undefined) === true;

/** Transforms a conversation for every cache. Equal texts are shared between objects. */
export function cachedConversation(
  stored: Conversation,
  interner = new Interner(),
): CachedConversation {
  const { status } = stored;
  interner.share(stored, 'apiVersion', 'kind');
  const { apiVersion, kind } = stored;
  const metadata = cachedMetadata(stored.metadata, interner);
  const spec = cachedSpec(stored.spec, interner);
  const storedBytes = storedBytesOf(stored);
  const beginning = beginningOf(stored.spec.initialMessage);
  // Literals with all fields take less memory than objects that are built field by field.
  if (status === undefined)
    return {
      apiVersion,
      kind,
      metadata,
      spec,
      storedBytes,
      firstWords: beginning,
      lacksSteps: false,
    };
  const lacksSteps = lacksStepsInCaches(stored);
  return {
    apiVersion,
    kind,
    metadata,
    spec,
    status: cachedStatus(status, lacksSteps, interner),
    storedBytes,
    firstWords: beginning,
    lacksSteps,
  };
}

/** Copies the whole spec, then replaces fields: a copy field by field takes more memory. */
function cachedSpec(spec: ConversationSpec, interner: Interner): CachedConversationSpec {
  interner.share(spec, 'owner', 'templateName');
  const { initialMessage, messages, repository, agent, secrets } = spec;
  if (repository !== undefined) interner.share(repository, 'name', 'branch');
  if (agent !== undefined) interner.share(agent, 'model');
  const cached: Mutable<CachedConversationSpec> = { ...spec };
  if (initialMessage !== undefined) cached.initialMessage = withoutContent(initialMessage);
  if (messages !== undefined) cached.messages = messages.map(laterWithoutContent);
  if (secrets !== undefined) cached.secrets = secrets.map(({ name }) => ({ name }));
  if (agent?.systemMessageSuffix !== undefined) cached.agent = withoutSuffix(agent);
  return cached;
}

const withoutContent = ({ role, run }: Message): CachedMessage => ({ role, run });
const laterWithoutContent = ({ role, run, number, id }: LaterMessage): CachedLaterMessage => ({
  role,
  run,
  number,
  id,
});
const withoutSuffix = ({
  systemMessageSuffix: _suffix,
  ...agent
}: AgentSettings): Omit<AgentSettings, 'systemMessageSuffix'> => agent;

function cachedStatus(
  status: ConversationStatus,
  lacksSteps: boolean,
  interner: Interner,
): ConversationStatus {
  interner.share(status, 'executionDetail', 'sandboxStatusReason', 'sandboxName', 'sandboxUID');
  interner.share(status, 'workingDir');
  for (const transition of status.start?.transitions ?? [])
    interner.share(transition, 'status', 'time');
  for (const condition of status.conditions ?? [])
    interner.share(condition, 'type', 'reason', 'message', 'lastTransitionTime');
  const { approval } = status;
  const short = approval === undefined ? status : { ...status, approval: withoutText(approval) };
  if (!lacksSteps || short.start === undefined) return short;
  const { steps: _steps, ...start } = short.start;
  return { ...short, start };
}

/** The Buffer creates a new string, because a slice would keep the whole text in memory. */
function beginningOf(message: Message | undefined): string {
  const beginnings = (message?.content ?? []).map(({ text = '' }) => text.slice(0, maxReadLength));
  return Buffer.from(firstWords(beginnings.join(' '))).toString();
}
