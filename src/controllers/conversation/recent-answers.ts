import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { LRUCache } from 'lru-cache';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Conversation } from '../../resources/conversation.ts';
import { storedConversation } from '../stored-object.ts';

/**
 * Maximum age of a kept response in milliseconds: longer than a start takes when the node already
 * has the image.
 */
const textsMs = 3_000;
const maxRememberedBytes = 4 * 2 ** 20;

type Known = Pick<CachedConversation, 'metadata'>;

export interface RecentAnswersOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly clock: Clock;
}

/**
 * Keeps the API server's responses to the latest status writes. A response has the texts that
 * caches lack, so that an ordinary start needs no read for the texts.
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

  /** Keeps a response. `bytes` is the size of the conversation. */
  remember(conversation: Conversation, bytes: number): void {
    const at = this.#options.clock.monotonic();
    this.#answers.set(conversation.metadata.uid, { conversation, at }, { size: bytes });
  }

  /** Like `storedConversation`, but first tries the kept response, and removes it. */
  async conversation(known: Known, signal: AbortSignal): Promise<Conversation | undefined> {
    const { client, clock } = this.#options;
    const { uid, resourceVersion, deletionTimestamp } = known.metadata;
    const answer = this.#answers.get(uid);
    this.#answers.delete(uid);
    return answer !== undefined &&
      deletionTimestamp === undefined &&
      answer.conversation.metadata.resourceVersion === resourceVersion &&
      clock.monotonic() - answer.at < textsMs
      ? answer.conversation
      : storedConversation({ client, signal }, known);
  }
}
