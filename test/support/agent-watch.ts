import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { processFile } from './process-file.ts';

const everyMs = 50;
const program = 'reference-agent';

/**
 * Counts the agents of one installation as `ps` would see them, whatever the installation says of
 * itself. The node's id in the environment identifies its agents, so those of others that run at
 * the same time are not counted.
 */
export class AgentWatch {
  readonly #marker: string;
  readonly #timer: NodeJS.Timeout;
  #last = performance.now();
  /** The most that were seen at once. */
  most = 0;
  samples = 0;
  /** Maximum time between two samples: on a busy machine a timer comes late. */
  longestGapMs = 0;

  constructor(dataDir: string) {
    const id = readFileSync(join(dataDir, 'node', 'node-id'), 'utf8').trim();
    this.#marker = `CONVERSATION_OPERATOR_NODE=${id}`;
    this.#timer = setInterval(() => this.#sample(), everyMs);
  }

  /**
   * The process ids of the agents that live. Their children belong to them, also in the moment
   * between fork and exec, in which a child resembles its agent.
   */
  agents(): readonly number[] {
    const parents = new Map<number, number>();
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      if (
        !processFile(entry, 'cmdline').includes(program) ||
        !processFile(entry, 'environ').includes(this.#marker)
      )
        continue;
      parents.set(
        Number(entry),
        Number(/^PPid:\s+(\d+)$/m.exec(processFile(entry, 'status'))?.[1]),
      );
    }
    return [...parents].flatMap(([id, parent]) => (parents.has(parent) ? [] : [id]));
  }

  #sample(): void {
    const now = performance.now();
    this.longestGapMs = Math.max(this.longestGapMs, now - this.#last);
    this.#last = now;
    this.samples++;
    this.most = Math.max(this.most, this.agents().length);
  }

  stop(): this {
    clearInterval(this.#timer);
    return this;
  }
}
