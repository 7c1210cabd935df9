import { IdleTimer, sleep } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeObject, ResourceDefinition } from './object.ts';
import { backoffDelayMs, type BackoffOptions } from '@conversation-operator/base/backoff';
import type { KubeClient, ListOptions, WatchEvent } from './client.ts';
import { TransportError, ApiError, isExpired } from './errors.ts';
import type { RuntimeOptions } from './runtime-options.ts';
import { IndexedStore, type Indexers, type Store } from './store.ts';

/** Reason why a list or a watch is started again; a label value of the metric `watchRestarts`. */
type RestartCause = 'timeout' | 'short' | 'expired' | 'silent' | 'connection' | 'refused';

/** Thrown when a watch ends for another reason than its timeout. */
class WatchFailure extends Error {
  override readonly name = 'WatchFailure';
  readonly reason: RestartCause;
  /** Version from which the next watch continues. Undefined: the reflector has to list again. */
  readonly resumeFrom: string | undefined;

  constructor(reason: RestartCause, resumeFrom: string | undefined, cause: unknown) {
    super(`watch failed: ${reason}`, { cause });
    this.reason = reason;
    this.resumeFrom = resumeFrom;
  }
}

/** After a lost connection, 429 or 5xx, the next watch may continue from the last version. */
function watchFailure(error: unknown, resourceVersion: string): WatchFailure {
  if (isExpired(error)) return new WatchFailure('expired', undefined, error);
  if (error instanceof TransportError)
    return new WatchFailure('connection', resourceVersion, error);
  const isTransient = error instanceof ApiError && (error.status === 429 || error.status >= 500);
  return new WatchFailure('refused', isTransient ? resourceVersion : undefined, error);
}

/**
 * How certain a deletion is:
 * - observed: the API server has reported the deletion.
 * - assumed: a list lacks the object, or `accepts` rejects the object. The object may still exist,
 *   if the API server was restored from a backup.
 */
export type Finality = 'observed' | 'assumed';

/**
 * Receives the changes of the objects of a kind, in order. For each uid, the reflector calls
 * `added` once, `updated` any number of times, and `deleted` once. An object that is recreated
 * under its old name has a new uid. Before each call, the reflector changes the store, in the same
 * turn of the event loop.
 */
export interface Handler<T> {
  added?(object: T): void;
  updated?(object: T, old: T): void;
  /** Receives the last known state of the object. */
  deleted?(object: T, finality: Finality): void;
}

interface CommonOptions<S extends KubeObject, T extends KubeObject> extends RuntimeOptions {
  readonly client: KubeClient;
  readonly resource: ResourceDefinition<S>;
  /** Default: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly indexers?: Indexers<T>;
  /**
   * Maximum time without an event, after which the reflector restarts the watch; default 150 s. API
   * servers send a bookmark about every minute, so two bookmarks are missing then.
   */
  readonly silenceMs?: number;
}

/**
 * Converts an object of a list or a watch into the object that the store holds, like client-go's
 * SetTransform, and removes parts that no reader of the store needs. The reflector converts each
 * accepted version once and page by page, so that at most one page of whole objects is in memory. A
 * transform has no side effects and keeps namespace, name, uid and resourceVersion.
 */
type Transform<S, T> = (object: S) => T;

export type ReflectorOptions<S extends KubeObject, T extends KubeObject = S> = CommonOptions<S, T> &
  // Without a transform, the store holds the objects as the server sends them.
  ([S] extends [T]
    ? { readonly transform?: Transform<S, T> }
    : { readonly transform: Transform<S, T> });

/** Back-off of client-go: 800 ms to 30 s, doubling, reset after two minutes without a failure. */
const backoff: BackoffOptions = { baseMs: 800, capMs: 30_000, jitter: 1 };
const healthyMs = 120_000;

/** A watch that ends earlier than this, without an event, counts as a failure of the server. */
const shortWatchMs = 1000;

export interface Freshness {
  /** Time since the last list or event, including bookmarks. Undefined before the first list. */
  readonly newsAgeMs: number | undefined;
  /** True from a failure of the list or watch to the next success: the store may lack changes. */
  readonly isInterrupted: boolean;
}

/**
 * Keeps a store equal to the state of the API server by a list, and a watch that continues from the
 * list. Retries every failure. Ignores objects that `accepts` rejects.
 * @typeParam S Objects as the API server sends them.
 * @typeParam T Objects as the store holds them.
 */
export class Reflector<S extends KubeObject, T extends KubeObject = S> {
  readonly #options: CommonOptions<S, T>;
  readonly #transform: Transform<S, T>;
  readonly #logger: Logger;
  readonly #store: IndexedStore<T>;
  readonly #abort = new AbortController();
  readonly #firstSync = Promise.withResolvers<undefined>();
  /** Version of each rejected object by uid, so that the reflector logs each version once. */
  #refused = new Map<string, string>();
  // A change copies the array, so that a running notification does not reach a new handler.
  #handlers: readonly Handler<T>[] = [];
  #running: Promise<void> | undefined;
  #synced = false;
  #failures = 0;
  #newsAt: number | undefined;
  #isInterrupted = false;
  /** Monotonic time at which the last back-off ended. */
  #beganAt = 0;

  constructor(options: ReflectorOptions<S, T>) {
    this.#options = options;
    const { transform }: { readonly transform?: Transform<S, T> } = options;
    // The type of the options guarantees that S is a T if there is no transform.
    this.#transform = transform ?? ((object) => object as unknown as T);
    this.#logger = options.logger.child({ resource: options.resource.plural });
    this.#store = new IndexedStore(options.indexers);
    // The handler avoids an unhandled rejection if no caller waits for the first list.
    this.#firstSync.promise.catch(() => undefined);
  }

  get store(): Store<T> {
    return this.#store;
  }

  /** True forever once the store holds a whole list and the handlers have received it. */
  get hasSynced(): boolean {
    return this.#synced;
  }

  get freshness(): Freshness {
    const newsAgeMs =
      this.#newsAt === undefined ? undefined : this.#options.clock.monotonic() - this.#newsAt;
    return { newsAgeMs, isInterrupted: this.#isInterrupted };
  }

  /**
   * Adds a handler, and calls its `added` for every present object before this method returns. An
   * error that a handler throws is logged and does not affect other handlers. Returns a function
   * that removes the handler.
   */
  addHandler(handler: Handler<T>): () => void {
    this.#handlers = [...this.#handlers, handler];
    for (const object of this.#store.list()) this.#notify(handler, (one) => one.added?.(object));
    return () => {
      this.#handlers = this.#handlers.filter((other) => other !== handler);
    };
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves when stopped. The store keeps its content, and no handler is called any more. */
  async stop(): Promise<void> {
    const reason = new Error(`the reflector of ${this.#options.resource.plural} was stopped`);
    this.#abort.abort(reason);
    this.#firstSync.reject(reason);
    await this.#running;
  }

  /** Resolves when `hasSynced` is true. Rejects after `stop`, or when the signal is aborted. */
  async synced(signal?: AbortSignal): Promise<void> {
    if (signal === undefined) {
      await this.#firstSync.promise;
      return;
    }
    signal.throwIfAborted();
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => {
      aborted.reject(signal.reason as Error);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await Promise.race([this.#firstSync.promise, aborted.promise]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    const stopped = () => signal.aborted;
    // Undefined: the reflector has to list first.
    let resourceVersion: string | undefined;
    while (!stopped()) {
      try {
        resourceVersion ??= await this.#list(signal);
        resourceVersion = await this.#watch(resourceVersion, signal);
      } catch (error) {
        if (stopped()) return;
        if (error instanceof WatchFailure) {
          resourceVersion = error.resumeFrom;
          await this.#failed(error.reason, error.cause);
        } else {
          await this.#failed(error instanceof TransportError ? 'connection' : 'refused', error);
        }
      }
    }
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { client, resource } = this.#options;
    const refused = new Map<string, string>();
    const take = (object: S) =>
      this.#accepts(object, this.#refused, refused) ? this.#transform(object) : undefined;
    // A list request without a version is a consistent read, never older than the known state.
    const list = await client.listMapped(resource, take, { signal, ...this.#selection() });
    this.#refused = refused;
    // The rest runs in one turn of the event loop, so that no reader sees a part of the list.
    const present = new Set(list.items.map(({ metadata }) => metadata.uid));
    for (const object of this.#store.list())
      if (!present.has(object.metadata.uid)) this.#remove(object, 'assumed');
    for (const object of list.items) this.#put(object);
    this.#hasNews();
    if (!this.#synced) {
      this.#synced = true;
      this.#firstSync.resolve(undefined);
    }
    return list.resourceVersion;
  }

  #hasNews(): void {
    this.#newsAt = this.#options.clock.monotonic();
    this.#isInterrupted = false;
  }

  #selection(): ListOptions {
    const { namespace, labelSelector } = this.#options;
    return {
      ...(namespace === undefined ? {} : { namespace }),
      ...(labelSelector === undefined ? {} : { labelSelector }),
    };
  }

  /** Returns the version from which the next watch continues. Throws a WatchFailure. */
  async #watch(from: string, signal: AbortSignal): Promise<string | undefined> {
    const { client, resource, clock, random, silenceMs = 150_000 } = this.#options;
    const began = clock.monotonic();
    const silence = new AbortController();
    const onIdle = () => silence.abort(new Error(`no event arrived for ${silenceMs} ms`));
    const silenceTimer = new IdleTimer({ clock, idleMs: silenceMs, onIdle });
    let resourceVersion = from;
    let events = 0;
    try {
      const stream = client.watch(resource, {
        ...this.#selection(),
        resourceVersion,
        timeoutSeconds: 300 + Math.floor(random() * 301),
        signal: AbortSignal.any([signal, silence.signal]),
        onOpen: () => {
          this.#isInterrupted = false;
        },
      });
      for await (const event of stream) {
        if (signal.aborted) return undefined;
        silenceTimer.touch();
        this.#hasNews();
        events++;
        resourceVersion = this.#apply(event);
      }
    } catch (error) {
      if (silence.signal.aborted)
        throw new WatchFailure('silent', resourceVersion, silence.signal.reason);
      throw watchFailure(error, resourceVersion);
    } finally {
      silenceTimer.stop();
    }
    if (silence.signal.aborted)
      throw new WatchFailure('silent', resourceVersion, silence.signal.reason);
    if (events === 0 && clock.monotonic() - began < shortWatchMs)
      throw new WatchFailure('short', resourceVersion, undefined);
    this.#options.metrics?.watchRestarts.inc({ resource: resource.plural, cause: 'timeout' });
    return resourceVersion;
  }

  #apply(event: WatchEvent<S>): string {
    if (event.type === 'BOOKMARK') return event.resourceVersion;
    const { object } = event;
    const { namespace = '', name, uid, resourceVersion } = object.metadata;
    if (event.type === 'DELETED') {
      this.#refused.delete(uid);
      const known = this.#store.get(namespace, name);
      if (known?.metadata.uid === uid) this.#remove(known, 'observed');
    } else if (this.#accepts(object, this.#refused, this.#refused)) {
      this.#put(this.#transform(object));
    } else {
      const known = this.#store.get(namespace, name);
      if (known !== undefined) this.#remove(known, 'assumed');
    }
    return resourceVersion;
  }

  #put(object: T): void {
    const { namespace = '', name, uid, resourceVersion } = object.metadata;
    const known = this.#store.get(namespace, name);
    if (known !== undefined && known.metadata.uid !== uid) {
      this.#remove(known, 'assumed');
    } else if (known !== undefined) {
      if (known.metadata.resourceVersion === resourceVersion) return;
      this.#store.set(object);
      this.#notifyAll((handler) => handler.updated?.(object, known));
      return;
    }
    this.#store.set(object);
    this.#notifyAll((handler) => handler.added?.(object));
  }

  #remove(object: T, finality: Finality): void {
    const { namespace = '', name } = object.metadata;
    this.#store.delete(namespace, name);
    this.#notifyAll((handler) => handler.deleted?.(object, finality));
  }

  #accepts(object: S, logged: ReadonlyMap<string, string>, refused: Map<string, string>): boolean {
    const { accepts } = this.#options.resource;
    const { namespace, name, uid, resourceVersion } = object.metadata;
    if (accepts === undefined || accepts(object)) {
      // Nearly every event takes this branch, so the delete is skipped when the map is empty.
      if (refused.size > 0) refused.delete(uid);
      return true;
    }
    if (logged.get(uid) !== resourceVersion)
      this.#logger.warn('Object with an unknown schema is ignored', { namespace, name, uid });
    refused.set(uid, resourceVersion);
    return false;
  }

  #notifyAll(notify: (handler: Handler<T>) => void): void {
    for (const handler of this.#handlers) this.#notify(handler, notify);
  }

  #notify(handler: Handler<T>, notify: (handler: Handler<T>) => void): void {
    try {
      notify(handler);
    } catch (error) {
      this.#logger.error('Handler failed', { error });
    }
  }

  async #failed(cause: RestartCause, error: unknown): Promise<void> {
    const { clock, random, metrics, resource } = this.#options;
    metrics?.watchRestarts.inc({ resource: resource.plural, cause });
    this.#isInterrupted = true;
    if (clock.monotonic() - this.#beganAt >= healthyMs) this.#failures = 0;
    this.#failures++;
    // An expired version is normal after a long interruption, so the first new list has no delay.
    const delayMs =
      cause === 'expired' && this.#failures === 1
        ? 0
        : backoffDelayMs(backoff, this.#failures, random);
    // Nothing works before the first list has succeeded, so a failure is a warning.
    if (!this.#synced)
      this.#logger.warn('The first list failed and is repeated', { cause, delayMs, error });
    else
      this.#logger[cause === 'refused' ? 'warn' : 'debug']('Watch is restarted', {
        cause,
        delayMs,
        error,
      });
    try {
      await sleep(clock, delayMs, this.#abort.signal);
    } catch {
      // The reflector was stopped during the delay; the loop in `#run` ends.
    }
    this.#beganAt = clock.monotonic();
  }
}
