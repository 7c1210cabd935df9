import type { Logger } from '@conversation-operator/base/logger';
import type { KubeMetrics, RuntimeOptions } from './runtime-options.ts';
import type { BackoffOptions } from '@conversation-operator/base/backoff';
import { ApiError, isConflict } from './errors.ts';
import { Workqueue, type WorkqueueOptions } from './workqueue.ts';

/** An object to reconcile. The namespace has no slash, and is '' for cluster-scoped kinds. */
export interface Request {
  readonly namespace: string;
  readonly name: string;
}

/** Undefined: the controller reconciles the object again only after it has been enqueued again. */
export type Result = { readonly requeueAfterMs?: number } | undefined;

export interface ControllerOptions extends RuntimeOptions {
  /** Name in logs and metrics. */
  readonly name: string;
  /**
   * Reconciles one object. If it throws, the controller calls it again after a growing delay. The
   * signal is aborted if the call still runs when the grace period of `stop` is over.
   */
  readonly reconcile: (request: Request, signal: AbortSignal) => Promise<Result>;
  /**
   * Refreshes the caches after a conflict (HTTP 409), because a conflict means that a cache was
   * behind. The controller then reconciles the request again at once. A second conflict in
   * succession delays the request like any other failure. Absent: every conflict delays the
   * request.
   */
  readonly refresh?: ((request: Request, signal: AbortSignal) => Promise<void>) | undefined;
  /** Maximum number of concurrent reconciles; default 1. */
  readonly workers?: number;
  /** Returns the group of a request for `maxPerShare`, such as its owner. Default: one group. */
  readonly shareOf?: (request: Request) => string;
  /** Maximum workers that reconcile requests of one group at once; default: all workers. */
  readonly maxPerShare?: number;
  /** Delays after failures. Default: they double from 5 ms to 60 s, plus up to 10 % at random. */
  readonly backoff?: BackoffOptions;
}

const defaultBackoff: BackoffOptions = { baseMs: 5, capMs: 60_000, jitter: 0.1 };

type Outcome = 'success' | 'requeue' | 'conflict' | 'error';

/**
 * Calls `reconcile` for enqueued requests, never concurrently for the same request, and again after
 * a failure. A reconcile that throws does not affect other requests.
 */
export class Controller {
  readonly #options: ControllerOptions;
  readonly #logger: Logger;
  readonly #queue: Workqueue<string>;
  readonly #abort = new AbortController();
  /** Keys whose last reconcile was followed by another one at once, because of a conflict. */
  readonly #hasConflicted = new Set<string>();
  #workers: Promise<void>[] = [];

  constructor(options: ControllerOptions) {
    const {
      name,
      clock,
      random,
      metrics,
      shareOf,
      maxPerShare,
      backoff = defaultBackoff,
    } = options;
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

  /** Starts the workers. Requests that were enqueued before are reconciled now. */
  start(): void {
    if (this.#workers.length > 0)
      throw new Error(`controller ${this.#options.name} has been started already`);
    this.#workers = Array.from({ length: this.#options.workers ?? 1 }, () => this.#work());
  }

  /**
   * Starts no further reconcile and drops waiting requests. Aborts the signal of reconciles that
   * still run after `graceMs`. Resolves when no reconcile runs.
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
      // The repeated reconcile conflicted too: another client keeps writing, so a delay is needed.
      if (!isFresh || this.#hasConflicted.delete(key)) return this.#failed(key, error);
      this.#hasConflicted.add(key);
      this.#logger.debug('Reconcile met a conflict and is repeated', { ...requestOf(key), error });
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
      this.#logger.debug('The object of a conflict could not be read', {
        ...requestOf(key),
        error,
      });
      return false;
    }
  }

  #failed(key: string, error: unknown): Outcome {
    this.#queue.addRateLimited(key, error instanceof ApiError ? error.retryAfterMs : 0);
    const fields = { ...requestOf(key), failures: this.#queue.failures(key), error };
    // Conflicts are normal under optimistic concurrency, and are therefore no errors in the log.
    if (isConflict(error)) {
      this.#logger.debug('Reconcile met a conflict', fields);
      return 'conflict';
    }
    if (this.#abort.signal.aborted) {
      this.#logger.debug('Reconcile was aborted', fields);
    } else {
      this.#logger.error('Reconcile failed', fields);
    }
    return 'error';
  }
}

function queueMetrics(
  metrics: KubeMetrics,
  controller: string,
): Pick<WorkqueueOptions, 'onDepth' | 'onWaited'> {
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
