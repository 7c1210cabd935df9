import type { NodeConditions } from './node-conditions.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';

export interface OutagesOptions {
  readonly conditions: NodeConditions;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** Makes a resource quota full or not; absent: pods wait neither for a quota nor at a gate. */
  readonly setQuotaFull?: ((isFull: boolean) => void) | undefined;
  readonly trace: Trace;
  /** Time after which no outage lasts. */
  readonly untilMs: number;
}

/**
 * Times without room on the nodes, and times without an image registry: for seconds, or for longer
 * than a start may take. In a world with gates, times without room in a resource quota.
 */
export class Outages {
  readonly #options: OutagesOptions;

  constructor(options: OutagesOptions) {
    this.#options = options;
  }

  start(): void {
    const { conditions, random, setQuotaFull } = this.#options;
    if (setQuotaFull !== undefined) {
      conditions.gated = true;
      this.#next('a resource quota is full', setQuotaFull);
      return;
    }
    if (random.chance(0.6)) this.#next('no node has room', (lasts) => (conditions.full = lasts));
    if (random.chance(0.6))
      this.#next('the image registry is down', (lasts) => (conditions.registryDown = lasts));
  }

  /** Ends every outage. */
  end(): void {
    const { conditions, setQuotaFull } = this.#options;
    conditions.gated = false;
    setQuotaFull?.(false);
    conditions.full = false;
    conditions.registryDown = false;
  }

  #next(what: string, set: (lasts: boolean) => void): void {
    const { scheduler, random, trace, untilMs } = this.#options;
    scheduler.after(random.between(2_000, 60_000), () => {
      if (scheduler.monotonic() > untilMs) return;
      const forMs = random.chance(0.5)
        ? random.between(2_000, 40_000)
        : random.between(40_000, 240_000);
      trace.note(`${what} for ${forMs.toFixed(0)} ms`);
      set(true);
      scheduler.after(Math.min(forMs, untilMs - scheduler.monotonic()), () => {
        set(false);
        this.#next(what, set);
      });
    });
  }
}
