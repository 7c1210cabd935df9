import type { SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';

export interface HangsOptions {
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** Time after which no agent falls silent by itself. */
  readonly untilMs: number;
}

/** Agents whose containers run but answer nothing: for a moment, for minutes, or for ever. */
export class Hangs {
  readonly #options: HangsOptions;

  constructor(options: HangsOptions) {
    this.#options = options;
  }

  start(): void {
    const { scheduler, random, untilMs } = this.#options;
    scheduler.after(random.between(1_000, 40_000), () => {
      if (scheduler.monotonic() > untilMs) return;
      this.strike();
      this.start();
    });
  }

  strike(): void {
    const { node, random, trace } = this.#options;
    const agent = random.pick(node.running);
    const forMs =
      random.pick([random.between(1_000, 50_000), random.between(60_000, 400_000), Infinity]) ?? 0;
    if (agent === undefined || agent.silentSince !== undefined) return;
    trace.note(`agent ${agent.id} falls silent for ${forMs.toFixed(0)} ms`);
    agent.fallSilent(forMs);
  }
}
