import type { Conversation } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Services } from '../app/services.ts';
import { conversationRecord, type ConversationSources } from '../views/conversation.ts';
import type { AgentAccess } from '../views/exposure.ts';
import { startTaskRecord } from '../views/start-task.ts';
import { sourcesOf } from './records.ts';

interface MadeRecord {
  readonly sources: ConversationSources;
  readonly access: AgentAccess | undefined;
  readonly text: string;
}
interface MadeTask {
  readonly access: AgentAccess | undefined;
  readonly text: string;
}

/** Longer texts, of starts with long messages, are made each time: to remember them all would double what the cache holds. */
const maxRememberedLength = 8192;

const isSameAccess = (one: AgentAccess | undefined, other: AgentAccess | undefined): boolean =>
  one?.agentUrl === other?.agentUrl && one?.sessionKey === other?.sessionKey;

const isSame = (one: ConversationSources, other: ConversationSources): boolean =>
  one.sandbox === other.sandbox &&
  one.parent === other.parent &&
  one.children.length === other.children.length &&
  one.children.every((child, index) => child === other.children[index]);

const pageText = (texts: readonly string[], nextPageId: string | null): string =>
  `{"items":${listText(texts)},"next_page_id":${JSON.stringify(nextPageId)}}`;
const listText = (texts: readonly string[]): string => `[${texts.join(',')}]`;

/** Records as JSON, made once for as long as nothing that they are made of has changed: that is most of what an answer costs. */
export class RecordTexts {
  readonly #services: Services;
  readonly #records = new WeakMap<Conversation, MadeRecord>();
  readonly #tasks = new WeakMap<Conversation, MadeTask>();

  constructor(services: Services) {
    this.#services = services;
  }

  /** For clients that follow each of them, as `freshRecordOf`. */
  async freshConversations(conversations: readonly Conversation[]): Promise<string> {
    const { records } = this.#services;
    const texts = conversations.map(async (conversation) => this.#conversation(conversation, await records.sandboxOf(conversation)));
    return listText(await Promise.all(texts));
  }

  /** With sandboxes from the cache alone, as `recordOf`. */
  conversationPage({ items, next_page_id }: { readonly items: readonly Conversation[]; readonly next_page_id: string | null }): string {
    return pageText(
      items.map((conversation) => this.#conversation(conversation)),
      next_page_id,
    );
  }

  tasks(conversations: readonly Conversation[]): string {
    return listText(conversations.map((conversation) => this.#task(conversation)));
  }

  taskPage({ items, next_page_id }: { readonly items: readonly Conversation[]; readonly next_page_id: string | null }): string {
    return pageText(
      items.map((conversation) => this.#task(conversation)),
      next_page_id,
    );
  }

  #conversation(conversation: Conversation, sandbox?: Sandbox): string {
    const { exposure } = this.#services;
    const sources = sourcesOf(this.#services, conversation, sandbox);
    const access = exposure.accessTo(sources.sandbox);
    const known = this.#records.get(conversation);
    if (known !== undefined && isSame(known.sources, sources) && isSameAccess(known.access, access)) return known.text;
    const text = JSON.stringify(conversationRecord(sources, exposure));
    this.#records.set(conversation, { sources, access, text });
    return text;
  }

  #task(conversation: Conversation): string {
    const { records, exposure } = this.#services;
    const access = exposure.accessTo(records.sandboxNamed(conversation.status?.sandboxName));
    const known = this.#tasks.get(conversation);
    if (known !== undefined && isSameAccess(known.access, access)) return known.text;
    const text = JSON.stringify(startTaskRecord(conversation, access));
    if (text.length <= maxRememberedLength) this.#tasks.set(conversation, { access, text });
    return text;
  }
}
