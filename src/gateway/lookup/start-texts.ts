import { found } from '@conversation-operator/kube/errors';
import type { KubeClient } from '@conversation-operator/kube/client';
import {
  lacksStepsInCaches,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations, type Conversation, type Message } from '../../resources/conversation.ts';
import type { StartStep } from '../../resources/conversation-status.ts';
import type { Shares } from '@conversation-operator/base/shares';
import { LRUCache } from 'lru-cache';

interface ByteCacheOptions {
  readonly maxBytes: number;
  /** Maximum bytes of one owner, below `maxBytes`: an owner never displaces all other values. */
  readonly maxOwnerBytes: number;
}

interface Entry<V> {
  readonly owner: string;
  readonly value: V;
}

/** An LRU cache with a limit on the bytes of all values, and a limit for each owner. */
export class ByteCache<V> {
  readonly #maxOwnerBytes: number;
  readonly #all: LRUCache<string, Entry<V>>;
  /** The keys of each owner. A key is either in both `#owners` and `#all`, or in neither. */
  readonly #owners = new Map<string, LRUCache<string, true>>();

  constructor({ maxBytes, maxOwnerBytes }: ByteCacheOptions) {
    this.#maxOwnerBytes = maxOwnerBytes;
    this.#all = new LRUCache({
      maxSize: maxBytes,
      disposeAfter: ({ owner }, key) => {
        const own = this.#owners.get(owner);
        own?.delete(key);
        if (own?.size === 0) this.#owners.delete(owner);
      },
    });
  }

  get bytes(): number {
    return this.#all.calculatedSize;
  }

  get size(): number {
    return this.#all.size;
  }

  get(key: string): V | undefined {
    const entry = this.#all.get(key);
    if (entry !== undefined) this.#owners.get(entry.owner)?.get(key);
    return entry?.value;
  }

  /** Stores a value, unless the value alone exceeds `maxOwnerBytes`. */
  set(owner: string, key: string, value: V, bytes: number): void {
    this.delete(key);
    if (bytes > this.#maxOwnerBytes) return;
    const own = this.#owners.get(owner) ?? this.#newOwner();
    this.#owners.set(owner, own);
    own.set(key, true, { size: bytes });
    this.#all.set(key, { owner, value }, { size: bytes });
  }

  delete(key: string): void {
    this.#all.delete(key);
  }

  #newOwner(): LRUCache<string, true> {
    return new LRUCache({
      maxSize: this.#maxOwnerBytes,
      disposeAfter: (_present, key) => this.#all.delete(key),
    });
  }
}

/** The texts of a start that caches omit: texts of the client, and the output of ended steps. */
export interface StartTexts {
  readonly message: Message | undefined;
  readonly systemMessageSuffix: string | undefined;
  /** The steps at the time at which the texts were read. */
  readonly steps: readonly StartStep[];
}

export const startTextsOf = ({ spec, status }: Conversation): StartTexts => ({
  message: spec.initialMessage,
  systemMessageSuffix: spec.agent?.systemMessageSuffix,
  steps: status?.start?.steps ?? [],
});

const mebibyte = 1_048_576;
const kept = { maxBytes: 16 * mebibyte, maxOwnerBytes: 8 * mebibyte } as const;
/** Estimated bytes of an entry, in addition to its texts. */
const entryBytes = 512;
/** The cache key changes with the spec, and when the start ends and its steps are complete. */
const keyOf = (
  { metadata: { uid, generation } }: Pick<CachedConversation, 'metadata'>,
  { lacksSteps }: { readonly lacksSteps: boolean },
): string => `${uid}/${generation}/${lacksSteps ? 'over' : ''}`;

/** The memory of the texts in bytes: a character takes at most two bytes. */
const bytesOf = ({ message, systemMessageSuffix = '', steps }: StartTexts): number => {
  const said =
    message?.content.flatMap(({ text = '', imageUrls = [] }) => [text, ...imageUrls]) ?? [];
  const texts = [...said, ...steps.map(({ output = '' }) => output)];
  return texts.reduce((sum, { length }) => sum + 2 * length, 2 * systemMessageSuffix.length);
};

/**
 * The texts of starts, read from the API server if they are not in memory. One owner can't use up
 * the memory or the connections.
 */
export class StartTextReader {
  readonly #client: KubeClient;
  readonly #known = new ByteCache<StartTexts>(kept);
  readonly #places: Shares;
  readonly #reading = new Map<string, Promise<StartTexts | undefined>>();

  constructor({ client, places }: { readonly client: KubeClient; readonly places: Shares }) {
    this.#client = client;
    this.#places = places;
  }

  /** The texts; undefined: the conversation is deleted. Throws `overloaded` and read errors. */
  of(conversation: CachedConversation): Promise<StartTexts | undefined> {
    const key = keyOf(conversation, conversation);
    const known = this.#known.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const underWay = this.#reading.get(key);
    if (underWay !== undefined) return underWay;
    const reading = this.#read(conversation).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return reading;
  }

  /** Caches the texts of an object that was read or created. */
  keep(stored: Conversation): StartTexts {
    const texts = startTextsOf(stored);
    this.#known.set(
      stored.spec.owner,
      keyOf(stored, { lacksSteps: lacksStepsInCaches(stored) }),
      texts,
      bytesOf(texts) + entryBytes,
    );
    return texts;
  }

  async #read({
    metadata: { namespace, name, uid },
    spec: { owner },
  }: CachedConversation): Promise<StartTexts | undefined> {
    const release = await this.#places.wait({ owner });
    try {
      const stored = await found(this.#client.get(conversations, namespace, name));
      return stored?.metadata.uid === uid ? this.keep(stored) : undefined;
    } finally {
      release();
    }
  }
}
