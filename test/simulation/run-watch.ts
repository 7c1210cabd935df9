import { conversationIdOf } from '../../src/resources/ids.ts';
import type { Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface RunWatchOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
}

/**
 * So long a conversation may be said to run after its agent has stopped to work on it, when the
 * operators know what is true.
 */
const mostMs = 30_000;

/**
 * Whether what is said to run does. To be asked again and again, from the moment on at which
 * nothing goes wrong any more.
 */
export class RunWatch {
  readonly #options: RunWatchOptions;
  /** By the uid of the conversation: since when it is said to run, and does not. */
  readonly #since = new Map<string, number>();

  constructor(options: RunWatchOptions) {
    this.#options = options;
  }

  look(): void {
    const { cluster, node, scheduler } = this.#options;
    const works = new Set(
      node.running.flatMap(({ sandboxUid, running }) =>
        running.map(({ id }) => `${sandboxUid} ${id}`),
      ),
    );
    for (const conversation of cluster.conversations) {
      const { metadata, status } = conversation;
      const said =
        status?.executionStatus === 'running' && metadata.deletionTimestamp === undefined;
      // Of one that does not answer nobody knows (see AgentWatch).
      const unknown = node.running.some(
        ({ sandboxUid, silentSince }) =>
          sandboxUid === status?.sandboxUID && silentSince !== undefined,
      );
      if (
        !said ||
        unknown ||
        works.has(`${status.sandboxUID ?? ''} ${conversationIdOf(conversation)}`)
      ) {
        this.#since.delete(metadata.uid);
        continue;
      }
      const since = this.#since.get(metadata.uid) ?? scheduler.monotonic();
      this.#since.set(metadata.uid, since);
      if (scheduler.monotonic() - since > mostMs)
        throw new Violation(
          'no conversation is reported as running without a running agent',
          `${metadata.name} for ${mostMs / 1000} s`,
        );
    }
  }
}
