import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { listText, pageFrame, plainFrame } from '../app/list-answer.ts';
import type { Services } from '../app/services.ts';
import { conversationRecord, type ConversationSources } from '../views/conversation.ts';
import { isSameAccess, type AgentAccess } from '../views/exposure.ts';
import { sourcesOf } from './records.ts';

interface MadeRecord {
  readonly sources: ConversationSources;
  readonly access: AgentAccess | undefined;
  readonly text: string;
}
const isSame = (one: ConversationSources, other: ConversationSources): boolean =>
  one.sandbox === other.sandbox &&
  one.parent === other.parent &&
  one.children.length === other.children.length &&
  one.children.every((child, index) => child === other.children[index]);

/** Records as JSON, made once for as long as nothing that they are made of has changed: that is most of what an answer costs. */
export class RecordTexts {
  readonly #services: Services;
  readonly #records = new WeakMap<CachedConversation, MadeRecord>();

  constructor(services: Services) {
    this.#services = services;
  }

  /** For clients that follow each of them, as `freshRecordOf`. */
  async freshConversations(conversations: readonly CachedConversation[]): Promise<string> {
    const { records } = this.#services;
    const texts = conversations.map(async (conversation) => this.#conversation(conversation, await records.sandboxOf(conversation)));
    return listText(plainFrame, await Promise.all(texts));
  }

  /** With sandboxes from the cache alone, as `recordOf`. */
  conversationPage({
    items,
    next_page_id,
  }: {
    readonly items: readonly CachedConversation[];
    readonly next_page_id: string | null;
  }): string {
    return listText(
      pageFrame(next_page_id),
      items.map((conversation) => this.#conversation(conversation)),
    );
  }

  #conversation(conversation: CachedConversation, sandbox?: Sandbox): string {
    const { exposure } = this.#services;
    const sources = sourcesOf(this.#services, conversation, sandbox);
    const access = exposure.accessTo(sources.sandbox);
    const known = this.#records.get(conversation);
    if (known !== undefined && isSame(known.sources, sources) && isSameAccess(known.access, access)) return known.text;
    const text = JSON.stringify(conversationRecord(sources, exposure));
    this.#records.set(conversation, { sources, access, text });
    return text;
  }
}
