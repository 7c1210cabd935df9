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
 * Maximum time for which a conversation may be reported as running after its agent has ceased to
 * work on it, when the operators know the true state.
 */
const maxMs = 30_000;

/** Checks that each conversation reported as running runs, from the end of all faults on. */
export class RunWatch {
  readonly #options: RunWatchOptions;
  /** By the UID of a conversation: the time since which it is wrongly reported as running. */
  readonly #since = new Map<string, number>();

  constructor(options: RunWatchOptions) {
    this.#options = options;
  }

  check(): void {
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
      // The work of an agent that does not answer is unknown (see AgentWatch).
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
      if (scheduler.monotonic() - since > maxMs)
        throw new Violation(
          'no conversation is reported as running without a running agent',
          `${metadata.name} for ${maxMs / 1000} s`,
        );
    }
  }
}
