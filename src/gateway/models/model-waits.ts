import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import type { ModelWait } from '../../resources/conversation-status.ts';
import type { ExpectedWait } from './upstream-key.ts';

export interface ModelWaitsOptions {
  readonly client: Pick<KubeClient, 'mergePatch'>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly logger: Logger;
}

/** Minimum time between two writes of one conversation. */
const intervalMs = 5_000;
/** A later end of the same wait is worth a write if it is later by this much. */
const newsMs = 1_000;
const deadlineMs = 2_000;
/** Maximum writes of one replica, so that a key at rest burdens the API server little. */
const pace = { burst: 50, intervalMs: 100 };
/** Maximum conversations whose last write is in memory. */
const maxConversations = 10_000;

interface Told {
  readonly reason: ModelWait['reason'];
  readonly untilMs: number;
  readonly atMs: number;
}

/**
 * Shows at conversations that a call of a model waits. Another process may serve the page, so the
 * wait is stored, at best effort: a write that fails or is left out is not repeated. Nothing has to
 * be written at the end of a wait, because its time says so.
 */
export class ModelWaits {
  readonly #options: ModelWaitsOptions;
  /** By UID of the conversation. */
  readonly #told = recentlyUsed<Told>(maxConversations);
  readonly #pace = new TokenBucket(pace);

  constructor(options: ModelWaitsOptions) {
    this.#options = options;
  }

  tell({ metadata }: Pick<CachedConversation, 'metadata'>, { reason, ms }: ExpectedWait): void {
    const { client, clock, logger } = this.#options;
    const { namespace, name, uid } = metadata;
    const nowMs = clock.monotonic();
    const untilMs = nowMs + ms;
    const told = this.#told.get(uid);
    if (told !== undefined && nowMs - told.atMs < intervalMs) return;
    if (told?.reason === reason && untilMs - told.untilMs < newsMs) return;
    if (this.#pace.readyAt > nowMs) return;
    this.#pace.take(nowMs);
    this.#told.set(uid, { reason, untilMs, atMs: nowMs });
    const until = new Date(clock.now() + ms).toISOString();
    const modelWait: ModelWait = { until, reason };
    client
      .mergePatch(
        conversations,
        namespace,
        name,
        // The UID is a precondition: the name may be that of another conversation by now.
        { metadata: { uid }, status: { modelWait } },
        { subresource: 'status', deadlineMs },
      )
      .catch((error: unknown) => {
        logger.debug('The wait for a model was not stored', { conversation: name, error });
      });
  }
}
