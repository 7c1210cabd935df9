import { z } from 'zod';
import type { Findings } from './findings.ts';
import { objectOf } from './retry-delay-check.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';
import type { Traffic, TrafficListener, TrafficRequest } from './traffic.ts';

export interface RequestRateCheckOptions {
  readonly traffic: Traffic;
  readonly findings: Findings;
  readonly scheduler: Scheduler;
  readonly isOperator: (actor: string) => boolean;
}

const windowMs = 10_000;
/** Maximum requests of one process about one object within a window, whatever goes wrong. */
const maxRequests = 150;

const createdObject = z.object({
  metadata: z.object({
    name: z.string(),
    ownerReferences: z.array(z.object({ uid: z.string() })).default([]),
  }),
});

/**
 * The object that a request is about. A creation is about the owner of the new object, because each
 * attempt may give that another name; without an owner, about the new object.
 */
function subjectOf({ method, path, body = '' }: TrafficRequest): string {
  if (method !== 'POST' || body === '') return objectOf(path);
  const { data } = createdObject.safeParse(JSON.parse(body));
  if (data === undefined) return objectOf(path);
  const { name, ownerReferences } = data.metadata;
  return `${path} ${ownerReferences[0]?.uid ?? name}`;
}

/** Limits a process's requests about one object, also while every answer is a failure. */
export class RequestRateCheck implements TrafficListener {
  readonly #options: RequestRateCheckOptions;
  #window = 0;
  readonly #counts = new Map<string, number>();
  /** The highest count of any window. */
  highest = 0;

  constructor(options: RequestRateCheckOptions) {
    this.#options = options;
    options.traffic.add(this);
  }

  sent(request: TrafficRequest): void {
    const { actor, path } = request;
    const { scheduler, findings, isOperator } = this.#options;
    if (path.includes('/leases') || !isOperator(actor)) return;
    const window = Math.floor(scheduler.monotonic() / windowMs);
    if (window !== this.#window) this.#counts.clear();
    this.#window = window;
    const key = `${actor} ${subjectOf(request)}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    this.highest = Math.max(this.highest, count);
    if (count > maxRequests)
      findings.report(
        new Violation(
          'no controller runs hot',
          `${count} requests about ${path} by ${actor} within ${windowMs} ms`,
        ),
      );
  }
}
