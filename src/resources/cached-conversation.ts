import type { Conversation, ConversationSpec, ConversationStatus, LaterMessage, Message } from './conversation.ts';
import { firstWords, maxReadLength } from './first-words.ts';
import type { CustomObject } from './group.ts';
import { ownAnnotations } from './own-annotations.ts';
import { storedBytesOf } from './stored-size.ts';

/** A message without its content. */
export type CachedMessage = Omit<Message, 'content'>;
export type CachedLaterMessage = Omit<LaterMessage, 'content'>;

type AgentSettings = NonNullable<ConversationSpec['agent']>;

export interface CachedConversationSpec extends Omit<ConversationSpec, 'initialMessage' | 'messages' | 'agent'> {
  readonly initialMessage?: CachedMessage | undefined;
  readonly messages?: readonly CachedLaterMessage[] | undefined;
  readonly agent?: Omit<AgentSettings, 'systemMessageSuffix'> | undefined;
}

/**
 * A conversation as caches hold it: without the texts that its owner has stored, which may have a mebibyte, so that memory does not
 * depend on them. The reader of a text gets the object from the API server. Labels, finalizers and annotations of others are absent too.
 */
export interface CachedConversation extends Omit<CustomObject<CachedConversationSpec, ConversationStatus>, 'metadata'> {
  readonly metadata: CachedMetadata;
  /** What `storedBytesOf` says of the stored object. */
  readonly storedBytes: number;
  /** The beginning of the first message, for a title; empty where the message has no text. */
  readonly firstWords: string;
}

type CachedMetadata = Pick<
  Conversation['metadata'],
  'name' | 'namespace' | 'uid' | 'resourceVersion' | 'generation' | 'creationTimestamp' | 'deletionTimestamp' | 'annotations'
>;

/** The transform of every cache of conversations. */
export function cachedConversation(stored: Conversation): CachedConversation {
  const { apiVersion, kind, metadata, spec, status } = stored;
  const { initialMessage, messages, agent, ...rest } = spec;
  return {
    apiVersion,
    kind,
    metadata: cachedMetadata(metadata),
    spec: {
      ...rest,
      ...(initialMessage === undefined ? {} : { initialMessage: withoutContent(initialMessage) }),
      ...(messages === undefined ? {} : { messages: messages.map(withoutContent) }),
      ...(agent === undefined ? {} : { agent: withoutSuffix(agent) }),
    },
    ...(status === undefined ? {} : { status }),
    storedBytes: storedBytesOf(stored),
    firstWords: beginningOf(initialMessage),
  };
}

const withoutContent = <M extends Message>({ content: _content, ...message }: M): Omit<M, 'content'> => message;

const withoutSuffix = ({ systemMessageSuffix: _suffix, ...agent }: AgentSettings): Omit<AgentSettings, 'systemMessageSuffix'> => agent;

function cachedMetadata(metadata: Conversation['metadata']): CachedMetadata {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp } = metadata;
  return {
    ...{ name, namespace, uid, resourceVersion, generation, creationTimestamp },
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...ownAnnotations(metadata),
  };
}

/** The copy is a string of its own: a slice would keep the whole text in memory. */
function beginningOf(message: Message | undefined): string {
  const beginnings = (message?.content ?? []).map(({ text = '' }) => text.slice(0, maxReadLength));
  return Buffer.from(firstWords(beginnings.join(' '))).toString();
}
