import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { AgentNotification } from '../../../agent/notifications.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { Request } from '@conversation-operator/kube/controller';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { byAgentId, bySandbox, type Stores } from '../../caches.ts';
import { ownerShare } from '../../workers.ts';

export interface AgentNotificationsOptions {
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes'>;
  readonly clock: Clock;
  /** Brings the next poll of a conversation forward. */
  readonly onNotification: (request: Request) => void;
}

/** Conversations of one owner that notifications bring forward: at once, and 200 per second. */
const budget = { burst: 400, intervalMs: 5 } as const;
const maxOwners = 4_096;

/**
 * Takes notifications of agents, each about one conversation or about all conversations of a
 * sandbox. Every poll that a notification brings forward is charged to the budget of the owner, so
 * that the agents of an owner cost the same however much they notify. The next regular poll finds
 * the change of a dropped notification.
 */
export class AgentNotifications {
  readonly #options: AgentNotificationsOptions;
  readonly #budgets = recentlyUsed<TokenBucket>(maxOwners);

  constructor(options: AgentNotificationsOptions) {
    this.#options = options;
  }

  take({ namespace, sandbox: name, conversationId }: AgentNotification): void {
    const { stores, onNotification } = this.#options;
    const sandbox = stores.sandboxes.get(namespace, name);
    if (sandbox === undefined) return;
    const named =
      conversationId === undefined
        ? stores.conversations.byIndex(bySandbox, `${namespace}/${name}`)
        : stores.conversations.byIndex(byAgentId, `${namespace}/${name}/${conversationId}`);
    if (named.length === 0 || !this.#spend(ownerShare(sandbox), named.length)) return;
    for (const { metadata } of named) onNotification({ namespace, name: metadata.name });
  }

  /**
   * Whether the owner has tokens left. A notification that costs more than the tokens that are left
   * delays later notifications.
   */
  #spend(owner: string, count: number): boolean {
    const now = this.#options.clock.monotonic();
    const bucket = this.#budgets.get(owner) ?? new TokenBucket(budget);
    this.#budgets.set(owner, bucket);
    const isLeft = bucket.availableAt(now) > 0;
    if (isLeft) bucket.take(now, count);
    return isLeft;
  }
}
