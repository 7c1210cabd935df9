import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { Exposure } from './sandbox.ts';
import { notFound } from '../errors/problem-error.ts';
import { type ConversationSources, presentConversation } from './conversation.ts';
import type { StartTextReader, StartTexts } from '../lookup/start-texts.ts';
import { listText, plainFrame, type Pieces } from '@conversation-operator/http/body/send-chunks';
import type { Sandbox } from '../../resources/sandbox.ts';
import { pageFrame } from './schemas.ts';
import type { Reader } from '../auth/session-keys.ts';

/** A conversation with what the caches know around it. */
export const sourcesOf = (
  lookup: ResourceLookup,
  conversation: CachedConversation,
  sandbox = lookup.sandboxIn(conversation),
): ConversationSources => ({
  conversation,
  sandbox,
  parent: lookup.parentOf(conversation),
  children: lookup.children(conversation),
});

/**
 * The texts that its client has sent with the start. Throws a problem where the conversation does
 * not exist any more.
 */
export async function startTextsOf(
  startTexts: StartTextReader,
  conversation: CachedConversation,
): Promise<StartTexts> {
  const texts = await startTexts.of(conversation);
  if (texts === undefined) throw notFound('conversation');
  return texts;
}

/** The access of clients to the agent of a conversation, as far as the caches know. */
export const accessTo = (
  { lookup, exposure }: { readonly lookup: ResourceLookup; readonly exposure: Exposure },
  conversation: CachedConversation,
) => exposure.accessTo(lookup.sandboxIn(conversation));

interface MadeRecord {
  readonly sources: ConversationSources;
  readonly agentUrl: string | undefined;
  /** Whether the record has a session key at all. */
  readonly hasKey: boolean;
  /** The record without a session key, its last field, which differs from reader to reader. */
  readonly text: string;
}

/** The end of a record without a session key. */
const recordEnd = 'null}';

const isSame = (one: ConversationSources, other: ConversationSources): boolean =>
  one.sandbox === other.sandbox &&
  one.parent === other.parent &&
  one.children.length === other.children.length &&
  one.children.every((child, index) => child === other.children[index]);

/**
 * Records as JSON, made once for as long as nothing that they are made of has changed: that is most
 * of what an answer costs.
 */
export class ResponseCache {
  readonly #lookup: ResourceLookup;
  readonly #exposure: Exposure;
  readonly #records = new WeakMap<CachedConversation, MadeRecord>();

  constructor(needs: { readonly lookup: ResourceLookup; readonly exposure: Exposure }) {
    this.#lookup = needs.lookup;
    this.#exposure = needs.exposure;
  }

  /**
   * The record for a client that follows one conversation. MISSING ends its polling, so it is never
   * due to a cache that is behind.
   */
  async freshConversation(conversation: CachedConversation, reader: Reader): Promise<string> {
    return (await this.#fresh(conversation, reader)).join('');
  }

  /** Records as `freshConversation` returns them. */
  async freshConversations(
    conversations: readonly CachedConversation[],
    reader: Reader,
  ): Promise<string> {
    const texts = conversations.map((conversation) => this.#fresh(conversation, reader));
    return listText(plainFrame, await Promise.all(texts));
  }

  /** The record without a session key, with the sandbox from the cache only. */
  conversationText(conversation: CachedConversation): string {
    const sources = sourcesOf(this.#lookup, conversation);
    const access = this.#exposure.accessTo(sources.sandbox);
    return this.#made(conversation, sources, access?.agentUrl).text;
  }

  /** Records with sandboxes from the cache only. */
  conversationPage(
    {
      items,
      next_page_id,
    }: { readonly items: readonly CachedConversation[]; readonly next_page_id: string | null },
    reader: Reader,
  ): string {
    return listText(
      pageFrame(next_page_id),
      items.map((conversation) => this.#conversation(conversation, reader)),
    );
  }

  async #fresh(conversation: CachedConversation, reader: Reader): Promise<Pieces> {
    const sandbox = await this.#lookup.sandboxOf(conversation);
    return this.#conversation(conversation, reader, sandbox);
  }

  #conversation(conversation: CachedConversation, reader: Reader, sandbox?: Sandbox): Pieces {
    const sources = sourcesOf(this.#lookup, conversation, sandbox);
    const access = this.#exposure.accessTo(sources.sandbox);
    const { text, hasKey } = this.#made(conversation, sources, access?.agentUrl);
    const key = hasKey ? access?.sessionKeyFor(reader) : undefined;
    return key === undefined
      ? [text]
      : [text.slice(0, -recordEnd.length), JSON.stringify(key), '}'];
  }

  #made(
    conversation: CachedConversation,
    sources: ConversationSources,
    agentUrl: string | undefined,
  ): MadeRecord {
    const known = this.#records.get(conversation);
    if (known !== undefined && isSame(known.sources, sources) && known.agentUrl === agentUrl)
      return known;
    const record = presentConversation(sources, this.#exposure);
    const text = JSON.stringify(record);
    if (!text.endsWith(`"session_api_key":${recordEnd}`))
      throw new Error('the session key has to be the last field of a record');
    const made = { sources, agentUrl, hasKey: record.conversation_url !== null, text };
    this.#records.set(conversation, made);
    return made;
  }
}
