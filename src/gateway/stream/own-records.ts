import { conversationIdOf, startTaskIdOf } from '../../resources/ids.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { creationOf, sortedBy } from '../paging/keyset.ts';
import { type Exposure, presentSandbox } from '../presenters/sandbox.ts';
import type { StartTexts } from '../lookup/start-texts.ts';
import { startTaskRecord } from '../presenters/start-task.ts';
import { sourcesOf } from '../presenters/conversation-records.ts';
import { presentConversation, type ConversationSources } from '../presenters/conversation.ts';

export const subjectKinds = ['conversation', 'start_task', 'sandbox'] as const;
export type SubjectKind = (typeof subjectKinds)[number];

/** An object with a record. A start task has the name of its conversation. */
export interface Subject {
  readonly kind: SubjectKind;
  readonly name: string;
}

export interface OwnRecord {
  readonly id: string;
  readonly json: string;
  /** Whether the record is the last one of a start task, because the start is READY. */
  readonly isOver: boolean;
}

/**
 * A stream reads only the caches, which lack the texts of a start. Otherwise the long texts of an
 * owner would be read and sent again with each change.
 */
const withoutTexts: StartTexts = { message: undefined, systemMessageSuffix: undefined, steps: [] };

interface MadeRecord {
  readonly sources: ConversationSources;
  readonly agentUrl: string | undefined;
  readonly record: OwnRecord;
}

const isSame = (one: ConversationSources, other: ConversationSources): boolean =>
  one.sandbox === other.sandbox &&
  one.parent === other.parent &&
  one.children.length === other.children.length &&
  one.children.every((child, index) => child === other.children[index]);

const isReady = (conversation: CachedConversation): boolean =>
  startStatusOf(conversation) === 'READY';

export interface OwnRecordsOptions {
  readonly owner: string;
  readonly lookup: ResourceLookup;
  readonly exposure: Exposure;
  /** The record of GET /api/v1/quota. */
  readonly quota: (owner: string) => unknown;
}

/**
 * The records of one owner as its streams show them: as in responses to GET, but from the caches
 * only and without session keys, so that every client of the owner gets the same records.
 */
export class OwnRecords {
  readonly #options: OwnRecordsOptions;
  /** The last records of conversations. Without this map, 500 snapshots take twice the memory. */
  readonly #made = new WeakMap<CachedConversation, MadeRecord>();

  constructor(options: OwnRecordsOptions) {
    this.#options = options;
  }

  get owner(): string {
    return this.#options.owner;
  }

  /** Every object that may have a record: the newest conversations first, then the sandboxes. */
  *subjects(): Generator<Subject, void, undefined> {
    const { owner, lookup } = this.#options;
    for (const { item } of sortedBy(lookup.conversationsOf(owner), creationOf).toReversed()) {
      const { name } = item.metadata;
      yield { kind: 'conversation', name };
      if (!isReady(item)) yield { kind: 'start_task', name };
    }
    for (const { item } of sortedBy(lookup.sandboxesOf(owner), creationOf).toReversed())
      yield { kind: 'sandbox', name: item.metadata.name };
  }

  /** The record of an object; undefined if it does not exist, or is being deleted. */
  recordOf({ kind, name }: Subject): OwnRecord | undefined {
    if (kind === 'sandbox') return this.#sandbox(name);
    const conversation = this.#options.lookup.cachedConversation(name);
    if (conversation === undefined || !this.#isShown(conversation)) return undefined;
    return kind === 'start_task' ? this.#startTask(conversation) : this.#conversation(conversation);
  }

  quotaJson(): string {
    return JSON.stringify(this.#options.quota(this.owner));
  }

  #isShown({ metadata, spec }: Pick<CachedConversation, 'metadata'> & { spec: { owner: string } }) {
    return spec.owner === this.owner && metadata.deletionTimestamp === undefined;
  }

  #conversation(conversation: CachedConversation): OwnRecord {
    const { lookup, exposure } = this.#options;
    const sources = sourcesOf(lookup, conversation);
    const agentUrl = exposure.accessTo(sources.sandbox)?.agentUrl;
    const known = this.#made.get(conversation);
    if (known !== undefined && isSame(known.sources, sources) && known.agentUrl === agentUrl)
      return known.record;
    const json = JSON.stringify(presentConversation(sources, exposure));
    const record = { id: conversationIdOf(conversation), json, isOver: false };
    this.#made.set(conversation, { sources, agentUrl, record });
    return record;
  }

  #startTask(conversation: CachedConversation): OwnRecord {
    const { lookup, exposure } = this.#options;
    const access = exposure.accessTo(lookup.sandboxIn(conversation));
    return {
      id: startTaskIdOf(conversationIdOf(conversation)),
      json: JSON.stringify(startTaskRecord(conversation, withoutTexts, access)),
      isOver: isReady(conversation),
    };
  }

  #sandbox(name: string): OwnRecord | undefined {
    const { lookup, exposure } = this.#options;
    const sandbox = lookup.sandboxNamed(name);
    if (sandbox === undefined || !this.#isShown(sandbox)) return undefined;
    return { id: name, json: JSON.stringify(presentSandbox(sandbox, exposure)), isOver: false };
  }
}
