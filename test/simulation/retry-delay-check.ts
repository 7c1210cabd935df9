import type { Findings } from './findings.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';
import type { Traffic, TrafficListener, TrafficRequest } from './traffic.ts';

export interface RetryDelayCheckOptions {
  readonly traffic: Traffic;
  readonly findings: Findings;
  readonly scheduler: Scheduler;
  /** Whether this process leads now. */
  readonly leads: (actor: string) => boolean;
  /** Whether the object at this path exists. */
  readonly exists: (path: string) => boolean;
}

/**
 * Maximum time to the next attempt after one failure: 5 ms, the answer's way, and what a controller
 * asks before it writes. Several failures in a row wait longer, and are not made here.
 */
const maxDelayMs = 100;

/** A write that fails once after successes is retried soon: earlier failures count no more. */
export class RetryDelayCheck implements TrafficListener {
  readonly #options: RetryDelayCheckOptions;
  /** By process and object: the time of the last request. */
  readonly #sentAt = new Map<string, number>();

  constructor(options: RetryDelayCheckOptions) {
    this.#options = options;
    options.traffic.add(this);
  }

  sent(request: TrafficRequest): void {
    this.#sentAt.set(keyOf(request), this.#options.scheduler.monotonic());
  }

  /** A single write of the process was refused for no reason of its own. */
  refused(request: TrafficRequest): void {
    const { scheduler, findings, leads, exists } = this.#options;
    const at = scheduler.monotonic();
    scheduler.after(maxDelayMs, () => {
      const repeated = (this.#sentAt.get(keyOf(request)) ?? 0) > at;
      if (repeated || !leads(request.actor) || !exists(request.path)) return;
      findings.report(
        new Violation(
          'a failure after a success is retried soon',
          `${request.method} ${request.path} by ${request.actor}`,
        ),
      );
    });
  }
}

/** The path of the object without the subresource. */
export const objectOf = (path: string): string => path.replace(/\/(?:status|scale|binding)$/, '');
const keyOf = ({ actor, path }: TrafficRequest): string => `${actor} ${objectOf(path)}`;
