import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isNewerVersion } from '@conversation-operator/kube/object';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { LRUCache } from 'lru-cache';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Conversation } from '../../resources/conversation.ts';
import { storedConversation } from '../stored-object.ts';

/**
 * Maximum time for which the response to a write replaces a read of the texts, in milliseconds:
 * longer than a start takes with its image on the node.
 */
const textsMs = 3_000;
/** Maximum age of a write that proves the age of later versions, in milliseconds. */
const proofMs = 1_000;
const maxRememberedBytes = 4 * 2 ** 20;
/** Minimum time between two writes that prove the age of later versions, in milliseconds. */
const proofIntervalMs = 50;
/** Maximum conversations whose start has used a proof: more than start within `proofMs`. */
const maxProven = 1_000;

type Known = Pick<CachedConversation, 'metadata'>;

export interface RecentAnswersOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly clock: Clock;
}

/**
 * The API server's responses to the latest status writes. They have the texts that caches lack, so
 * that an ordinary start needs no read for the texts. They also prove that another conversation has
 * just been stored, where its version is newer: a start needs no read for that while others start.
 */
export class RecentAnswers {
  readonly #options: RecentAnswersOptions;
  readonly #answers = new LRUCache<
    string,
    { readonly conversation: Conversation; readonly at: number }
  >({ maxSize: maxRememberedBytes });
  /** Writes of the last second, the oldest first. `sentAt` is monotonic. */
  #proofs: readonly (Known & { readonly sentAt: number })[] = [];
  /** Versions whose start has used a proof, by the UID of the conversation. */
  readonly #proven = recentlyUsed<string>(maxProven);

  constructor(options: RecentAnswersOptions) {
    this.#options = options;
  }

  /** Records the version that a write of this process, sent at `sentAt`, has stored. */
  written({ metadata }: Known, sentAt: number): void {
    const last = this.#proofs.at(-1);
    if (last !== undefined && sentAt < last.sentAt + proofIntervalMs) return;
    const oldestAt = this.#options.clock.monotonic() - proofMs;
    const recent = this.#proofs.filter((proof) => proof.sentAt >= oldestAt);
    this.#proofs = [...recent, { metadata, sentAt }];
  }

  /**
   * Whether the API server has certainly stored this version within the last second, however far
   * the cache lags. True once for each version: the outcome of the first attempt may be unknown, so
   * the next attempt reads.
   */
  isJustStored({ metadata }: Known): boolean {
    const { uid, resourceVersion } = metadata;
    const oldestAt = this.#options.clock.monotonic() - proofMs;
    if (
      this.#proven.get(uid) === resourceVersion ||
      !this.#proofs.some((proof) => proof.sentAt >= oldestAt && isNewerVersion({ metadata }, proof))
    )
      return false;
    this.#proven.set(uid, resourceVersion);
    return true;
  }

  /** Keeps a response. `bytes` is the size of the conversation. */
  remember(conversation: Conversation, bytes: number): void {
    const at = this.#options.clock.monotonic();
    this.#answers.set(conversation.metadata.uid, { conversation, at }, { size: bytes });
  }

  /** Like `storedConversation`, and removes the kept response. */
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
