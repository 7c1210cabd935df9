import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import type { Cluster } from './cluster.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';

export interface BusyNamespaceOptions {
  /** The cluster with all namespaces. */
  readonly whole: Pick<Cluster, 'call'>;
  readonly namespace: string;
  /** A namespace of the same shard, in which hardly anything happens. */
  readonly quiet: Pick<Cluster, 'call'>;
  readonly scheduler: Scheduler;
  readonly random: Random;
}

/** Number of sandboxes that are created at once. Each of them takes one decision. */
const crowd = 1_000;
/** Maximum delay before the crowd, and the delay before a start in the quiet namespace. */
const crowdWithinMs = 20_000;
const startsAfterMs = 300;
/** Time after which the sandboxes are deleted. */
const crowdMs = 15_000;

/**
 * A namespace whose quota lets no sandbox run, with very many sandboxes that want to: its decisions
 * follow one another for seconds, and meanwhile another namespace of the shard has one start.
 */
export class BusyNamespace {
  readonly #options: BusyNamespaceOptions;
  /** Whether the crowd is still to come, or still there. */
  busy = false;

  constructor(options: BusyNamespaceOptions) {
    this.#options = options;
  }

  /** The quota exists before any operator. */
  async furnish(): Promise<void> {
    const { namespace } = this.#options;
    await this.#ask('POST', '/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace },
    });
    await this.#ask('POST', this.#path(conversationQuotas.plural), {
      apiVersion,
      kind: conversationQuotas.kind,
      metadata: { name: 'none', namespace },
      spec: { scope: 'Namespace', limit: 0, onExceeded: 'Queue' },
    });
  }

  startExercise(): void {
    const { random, scheduler } = this.#options;
    this.busy = true;
    const name = Array.from({ length: 32 }, () => random.whole(0, 15).toString(16)).join('');
    scheduler.after(random.between(1_000, crowdWithinMs), () => {
      const names = Array.from({ length: crowd }, (_, index) => `crowd-${index}`);
      for (const one of names) void this.#ask('POST', this.#path(sandboxes.plural), this.#one(one));
      scheduler.after(startsAfterMs, () => void this.#start(name));
      scheduler.after(crowdMs, () => {
        for (const one of names) void this.#ask('DELETE', this.#path(sandboxes.plural, one));
        this.busy = false;
      });
    });
  }

  #one(name: string): object {
    const { namespace } = this.#options;
    return {
      apiVersion,
      kind: sandboxes.kind,
      metadata: { name, namespace },
      spec: { owner: 'alice', templateName: 'default' },
    };
  }

  #start(name: string): Promise<unknown> {
    const path = `/apis/${apiVersion}/namespaces/default/${conversations.plural}`;
    return this.#options.quiet.call('kubectl', 'POST', path, {
      apiVersion,
      kind: conversations.kind,
      metadata: { name, namespace: 'default' },
      spec: { owner: 'alice', templateName: 'default' },
    });
  }

  #path(plural: string, name?: string): string {
    const path = `/apis/${apiVersion}/namespaces/${this.#options.namespace}/${plural}`;
    return name === undefined ? path : `${path}/${name}`;
  }

  #ask(method: string, path: string, body?: object): Promise<unknown> {
    return this.#options.whole.call('kubectl', method, path, body);
  }
}
