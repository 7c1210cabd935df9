import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { LRUCache } from 'lru-cache';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { storedObject } from '../stored-object.ts';

/**
 * Returns the conversation with the texts that the cache lacks; undefined when it is gone or being
 * deleted.
 */
export async function storedConversation(
  client: Pick<KubeClient, 'get'>,
  conversation: Pick<CachedConversation, 'metadata'>,
  signal: AbortSignal,
): Promise<Conversation | undefined> {
  const stored = await storedObject(client, conversations, conversation, signal);
  return stored?.metadata.deletionTimestamp === undefined ? stored : undefined;
}

/** Maximum time for which the answer to a write replaces a read, in milliseconds. */
const recentMs = 1_000;
const maxRememberedBytes = 4 * 2 ** 20;

export interface RecentAnswersOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly clock: Clock;
}

/**
 * The answers of the API server to the status writes of the last second, which have the texts that
 * caches lack. An ordinary start needs no read for the texts, because its agent answers within a
 * second.
 */
export class RecentAnswers {
  readonly #options: RecentAnswersOptions;
  readonly #answers = new LRUCache<
    string,
    { readonly conversation: Conversation; readonly at: number }
  >({ maxSize: maxRememberedBytes });

  constructor(options: RecentAnswersOptions) {
    this.#options = options;
  }

  /** Remembers an answer. `bytes` is the size of the conversation. */
  remember(conversation: Conversation, bytes: number): void {
    const at = this.#options.clock.monotonic();
    this.#answers.set(conversation.metadata.uid, { conversation, at }, { size: bytes });
  }

  /** Returns what `storedConversation` does, and forgets the answer. */
  async conversation(
    known: Pick<CachedConversation, 'metadata'>,
    signal: AbortSignal,
  ): Promise<Conversation | undefined> {
    const { client, clock } = this.#options;
    const { uid, resourceVersion, deletionTimestamp } = known.metadata;
    const answer = this.#answers.get(uid);
    this.#answers.delete(uid);
    return answer !== undefined &&
      deletionTimestamp === undefined &&
      answer.conversation.metadata.resourceVersion === resourceVersion &&
      clock.monotonic() - answer.at < recentMs
      ? answer.conversation
      : storedConversation(client, known, signal);
  }
}
