import type { Timer } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { PullRequestRecord } from '../../resources/pull-request.ts';
import { newPool } from '../limits/pools.ts';
import type { Cache } from '../lookup/cache.ts';
import type { PullRequests } from './pull-requests.ts';

export interface PullRequestStatesOptions extends Pick<MeasuredRuntime, 'clock' | 'logger'> {
  readonly conversations: Cache<CachedConversation>;
  readonly pullRequests: Pick<PullRequests, 'refresh'>;
}

/** Interval at which the due times of open pull requests are checked. */
const sweepMs = 30_000;
const minIntervalMs = 60_000;
const maxIntervalMs = 6 * 3_600_000;
/** Interval between two reads of a pull request, as a share of the time since its last change. */
const intervalShare = 1 / 10;

/** Milliseconds between two reads of the state of a pull request. */
export const intervalOf = (unchangedMs: number): number =>
  Math.min(Math.max(unchangedMs * intervalShare, minIntervalMs), maxIntervalMs);

/**
 * Refreshes the state of open pull requests in the status of conversations. The interval is a
 * minute at first, and later a tenth of the time since the last change of the state. Every replica
 * reads the states; a change is stored once.
 */
export class PullRequestStates {
  readonly #options: PullRequestStatesOptions;
  readonly #places: Shares;
  /** Monotonic times of the next read, by the conversation's UID and the pull request's number. */
  #dueAt = new Map<string, number>();
  readonly #ended = new AbortController();
  #timer: Timer;

  constructor(options: PullRequestStatesOptions) {
    this.#options = options;
    this.#places = newPool('hostStates', options.clock);
    this.#timer = this.#next();
  }

  close(): void {
    this.#ended.abort(new Error('the gateway closes'));
    this.#timer.cancel();
  }

  #next(): Timer {
    return this.#options.clock.after(sweepMs, () => {
      this.#sweep();
      this.#timer = this.#next();
    });
  }

  #sweep(): void {
    const { clock, conversations } = this.#options;
    const now = clock.monotonic();
    const dueAt = new Map<string, number>();
    for (const conversation of conversations.store.list())
      for (const pullRequest of conversation.status?.pullRequests ?? []) {
        if (pullRequest.state !== 'Open') continue;
        const key = `${conversation.metadata.uid}/${pullRequest.number}`;
        // A pull request that this process has not read yet is read at once.
        const due = this.#dueAt.get(key) ?? now;
        if (due > now) dueAt.set(key, due);
        else {
          const unchangedMs = clock.now() - Date.parse(pullRequest.stateTime);
          dueAt.set(key, now + intervalOf(unchangedMs));
          void this.#refresh(conversation, pullRequest);
        }
      }
    this.#dueAt = dueAt;
  }

  /** Reads the state of a pull request, and stores a change. Never rejects. */
  async #refresh(conversation: CachedConversation, pullRequest: PullRequestRecord): Promise<void> {
    const { pullRequests, logger } = this.#options;
    const { signal } = this.#ended;
    try {
      const release = await this.#places.wait({ owner: conversation.spec.owner }, { signal });
      try {
        await pullRequests.refresh({ conversation, by: 'client', signal }, pullRequest);
      } finally {
        release();
      }
    } catch (error) {
      if (!signal.aborted)
        logger.debug('the state of a pull request is not known', {
          conversation: conversation.metadata.name,
          number: pullRequest.number,
          error,
        });
    }
  }
}
