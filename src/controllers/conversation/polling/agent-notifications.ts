import type { AgentHint } from '../../../agent/hints.ts';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Request } from '@conversation-operator/kube/controller';
import { LruMap } from '@conversation-operator/kube/lru-map';
import type { Store } from '@conversation-operator/kube/store';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { byAgentId, bySandbox } from '../../caches.ts';
import { ownerShare } from '../../workers.ts';

export interface AgentHintsOptions {
  readonly stores: { readonly conversations: Store<CachedConversation>; readonly sandboxes: Store<Sandbox> };
  readonly clock: Clock;
  /** A conversation is worth a poll. */
  readonly onHint: (request: Request) => void;
}

interface Budget {
  readonly tokens: number;
  readonly at: number;
}

/** Maximum conversations of one owner that notifications bring forward at once. */
const burst = 400;
/** Maximum conversations of one owner per second after that. */
const perSecond = 200;
const maxOwners = 4_096;

/**
 * Notifications of agents, each of one conversation or of all in a sandbox. Every conversation that one brings forward is taken from
 * the owner's budget, so that one owner's agents cost the same however much they notify. What is dropped is found by the next poll.
 */
export class AgentHints {
  readonly #options: AgentHintsOptions;
  readonly #budgets = new LruMap<string, Budget>(maxOwners);

  constructor(options: AgentHintsOptions) {
    this.#options = options;
  }

  take({ namespace, sandbox: name, conversationId }: AgentHint): void {
    const { stores, onHint } = this.#options;
    const sandbox = stores.sandboxes.get(namespace, name);
    if (sandbox === undefined) return;
    const named =
      conversationId === undefined
        ? stores.conversations.byIndex(bySandbox, `${namespace}/${name}`)
        : stores.conversations.byIndex(byAgentId, `${namespace}/${name}/${conversationId}`);
    if (named.length === 0 || !this.#spend(ownerShare(sandbox), named.length)) return;
    for (const { metadata } of named) onHint({ namespace, name: metadata.name });
  }

  /** Whether the owner has something left. What costs more than is left is paid later. */
  #spend(owner: string, count: number): boolean {
    const now = this.#options.clock.monotonic();
    const { tokens, at } = this.#budgets.get(owner) ?? { tokens: burst, at: now };
    const left = Math.min(burst, tokens + ((now - at) / 1_000) * perSecond);
    const isLeft = left > 0;
    this.#budgets.set(owner, { tokens: isLeft ? left - count : left, at: now });
    return isLeft;
  }
}
