import type { Logger } from './logger.ts';
import type { KubeMetrics } from './metrics.ts';
import type { BackoffOptions } from './backoff.ts';
import type { Clock } from './clock.ts';
import { ApiError, isConflict } from './errors.ts';
import { Workqueue, type WorkqueueOptions } from './workqueue.ts';

/** What to reconcile. The namespace holds no slash; '' for kinds without one. */
export interface Request {
  readonly namespace: string;
  readonly name: string;
}

/** Undefined: done, until something changes. */
export type Result = { readonly requeueAfterMs?: number } | undefined;

export interface ControllerOptions {
  /** In logs and metrics. */
  readonly name: string;
  /** Throws to be called again after a growing delay. The signal is aborted when the controller can't wait any longer. */
  readonly reconcile: (request: Request, signal: AbortSignal) => Promise<Result>;
  /**
   * Called when a reconcile has met a conflict: reads what it has decided on, of which the cache was behind. Then it is called again at
   * once, but for a second conflict in a row. Absent: a conflict is a failure like others.
   */
  readonly refresh?: ((request: Request, signal: AbortSignal) => Promise<void>) | undefined;
  /** How many reconciles run at once, each for another request; 1 by default. */
  readonly workers?: number;
  /** The share of the workers that a request belongs to (its owner's, say); by default there is one for all. */
  readonly shareOf?: (request: Request) => string;
  /** Maximum workers of one share; all of them by default. */
  readonly maxPerShare?: number;
  /** The delay after failures: 5 ms, doubled each time, at most 60 s, plus up to a tenth at random, by default. */
  readonly backoff?: BackoffOptions;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: KubeMetrics;
}

const defaultBackoff: BackoffOptions = { baseMs: 5, capMs: 60_000, jitter: 0.1 };

type Outcome = 'success' | 'requeue' | 'conflict' | 'error';

/**
 * Calls `reconcile` for what is enqueued, never twice at once for the same request, and again after a failure.
 * A reconcile that throws harms no one else.
 */
export class Controller {
  readonly #options: ControllerOptions;
  readonly #logger: Logger;
  readonly #queue: Workqueue<string>;
  readonly #abort = new AbortController();
  /** Those that were called again at once after a conflict. */
  readonly #hasConflicted = new Set<string>();
  #workers: Promise<void>[] = [];

  constructor(options: ControllerOptions) {
    const { name, clock, random, metrics, shareOf, maxPerShare, backoff = defaultBackoff } = options;
    this.#options = options;
    this.#logger = options.logger.child({ controller: name });
    this.#queue = new Workqueue({
      clock,
      random,
      backoff,
      ...(shareOf === undefined ? {} : { shareOf: (key: string) => shareOf(requestOf(key)) }),
      ...(maxPerShare === undefined ? {} : { maxPerShare }),
      ...(metrics === undefined ? {} : queueMetrics(metrics, name)),
    });
  }

  enqueue(request: Request): void {
    this.#queue.add(keyOf(request));
  }

  enqueueAfter(request: Request, delayMs: number): void {
    this.#queue.addAfter(keyOf(request), delayMs);
  }

  /** Requests may be enqueued before; they wait. */
  start(): void {
    if (this.#workers.length > 0) throw new Error(`controller ${this.#options.name} has been started already`);
    this.#workers = Array.from({ length: this.#options.workers ?? 1 }, () => this.#work());
  }

  /**
   * Begins no reconcile any more and drops what waits. Resolves when none runs; those that still do after `graceMs` have their
   * signal aborted.
   */
  async stop(graceMs = 10_000): Promise<void> {
    const drained = this.#queue.shutDown();
    const timer = this.#options.clock.after(graceMs, () => {
      this.#abort.abort(new Error(`controller ${this.#options.name} is stopping`));
    });
    try {
      await drained;
      await Promise.all(this.#workers);
    } finally {
      timer.cancel();
    }
  }

  async #work(): Promise<void> {
    for (let key = await this.#queue.get(); key !== undefined; key = await this.#queue.get()) {
      const { name, clock, metrics } = this.#options;
      const began = clock.monotonic();
      const outcome = await this.#reconcile(key);
      metrics?.reconciles.inc({ controller: name, result: outcome });
      metrics?.reconcileSeconds.observe({ controller: name }, (clock.monotonic() - began) / 1000);
      this.#queue.done(key);
    }
  }

  async #reconcile(key: string): Promise<Outcome> {
    try {
      const result = await this.#options.reconcile(requestOf(key), this.#abort.signal);
      this.#queue.forget(key);
      this.#hasConflicted.delete(key);
      if (result?.requeueAfterMs === undefined) return 'success';
      this.#queue.addAfter(key, result.requeueAfterMs);
      return 'requeue';
    } catch (error) {
      const isFresh = isConflict(error) && (await this.#refreshed(key));
      // Deleted where it is in: two conflicts in a row are somebody else's writes, and a delay lets them end.
      if (!isFresh || this.#hasConflicted.delete(key)) return this.#failed(key, error);
      this.#hasConflicted.add(key);
      this.#logger.debug('Reconcile met a conflict and decides again', { ...requestOf(key), error });
      this.#queue.add(key);
      return 'conflict';
    }
  }

  async #refreshed(key: string): Promise<boolean> {
    const { refresh } = this.#options;
    if (refresh === undefined) return false;
    try {
      await refresh(requestOf(key), this.#abort.signal);
      return true;
    } catch (error) {
      this.#logger.debug('What a conflict was about could not be read', { ...requestOf(key), error });
      return false;
    }
  }

  #failed(key: string, error: unknown): Outcome {
    this.#queue.addRateLimited(key, error instanceof ApiError ? error.retryAfterMs : 0);
    const fields = { ...requestOf(key), failures: this.#queue.failures(key), error };
    // A conflict says that the cache was behind: the ordinary course of optimistic concurrency.
    if (isConflict(error)) {
      this.#logger.debug('Reconcile met a conflict', fields);
      return 'conflict';
    }
    if (this.#abort.signal.aborted) {
      this.#logger.debug('Reconcile was ended', fields);
    } else {
      this.#logger.error('Reconcile failed', fields);
    }
    return 'error';
  }
}

function queueMetrics(metrics: KubeMetrics, controller: string): Pick<WorkqueueOptions, 'onDepth' | 'onWaited'> {
  const depthGauge = metrics.queueDepth.labels({ controller });
  const waitSeconds = metrics.queueWaitSeconds.labels({ controller });
  return {
    onDepth: (depth) => depthGauge.set(depth),
    onWaited: (waitedMs) => waitSeconds.observe(waitedMs / 1000),
  };
}

const keyOf = ({ namespace, name }: Request): string => `${namespace}/${name}`;

function requestOf(key: string): Request {
  const slash = key.indexOf('/');
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
