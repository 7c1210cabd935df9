import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import type { Cluster } from './cluster.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';

export interface NamedConversationsOptions {
  readonly cluster: Cluster;
  readonly random: Random;
  readonly scheduler: Scheduler;
  readonly owners: readonly string[];
  readonly untilMs: number;
}

/** Names that are known before the conversations are there. */
export const predictableNames = ['nightly', 'weekly', 'release-notes'] as const;

/** Id of a conversation by its name, also before the conversation is there. */
export const idOfName = (name: string): string =>
  conversationIdOf({
    metadata: { name, namespace: 'default', uid: '', resourceVersion: '', creationTimestamp: '' },
  });

const path = `/apis/${apiVersion}/namespaces/default/${conversations.plural}`;

/** Users with kubectl who choose the names of their conversations. */
export class NamedConversations {
  readonly #options: NamedConversationsOptions;

  constructor(options: NamedConversationsOptions) {
    this.#options = options;
  }

  start(): void {
    const { random, scheduler, untilMs } = this.#options;
    for (const name of predictableNames) {
      const at = random.between(0, untilMs);
      if (random.chance(0.6)) scheduler.after(at, () => void this.create(name));
      if (random.chance(0.2))
        scheduler.after(random.between(at, untilMs), () => void this.#recreate(name));
    }
  }

  create(
    name: string = this.#options.random.pick(predictableNames) ?? 'nightly',
  ): Promise<unknown> {
    const { cluster, random, owners } = this.#options;
    const text = `first of ${name}, ${random.whole(0, 1e9)}`;
    return cluster.call('kubectl', 'POST', path, {
      apiVersion,
      kind: conversations.kind,
      metadata: { name, namespace: 'default' },
      spec: {
        owner: random.pick(owners) ?? 'alice',
        templateName: 'default',
        initialMessage: { role: 'user', content: [{ type: 'text', text }], run: true },
        ...(random.chance(0.4) ? { repository: { name: 'owner/there' } } : {}),
      },
    });
  }

  async #recreate(name: string): Promise<void> {
    await this.#options.cluster.call('kubectl', 'DELETE', `${path}/${name}`);
    await this.create(name);
  }
}
