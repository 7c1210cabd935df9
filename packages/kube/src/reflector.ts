import type { Logger } from './logger.ts';
import type { KubeMetrics } from './metrics.ts';
import type { KubeObject, ResourceDefinition } from './object.ts';
import { backoffDelayMs, type BackoffOptions } from './backoff.ts';
import type { KubeClient, ListOptions, ShorteningOptions, WatchEvent } from './client.ts';
import { sleep, type Clock } from './clock.ts';
import { ApiError, TransportError, isExpired } from './errors.ts';
import { IndexedStore, type Indexers, type Store } from './store.ts';
import { Watchdog } from './watchdog.ts';

/**
 * What happens to the objects of a kind, in order. Of each uid: `added` once, `updated` any number of times, `deleted` once; an
 * object that is created again under its old name has a new uid. Called in the same turn as the store changes.
 */
export interface Handler<T> {
  added?(object: T): void;
  updated?(object: T, old: T): void;
  /** With the object as it was last known. */
  deleted?(object: T): void;
}

interface CommonOptions<S extends KubeObject, T extends KubeObject> extends ShorteningOptions {
  readonly client: KubeClient;
  readonly resource: ResourceDefinition<S>;
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  /** Of what the store holds. */
  readonly indexers?: Indexers<T>;
  /**
   * A watch that says nothing for so long is taken for dead and begun again; 150 s by default. API servers send a bookmark
   * about every minute, so two of them have to be missing.
   */
  readonly silenceMs?: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: KubeMetrics;
}

/**
 * Makes of each object of a list or a watch the one that the store holds, as client-go's SetTransform: for parts that would take memory and
 * that no reader of the store needs. Called for objects that `accepts` has let pass, once for each version, and page by page, so that never
 * more than a page of whole objects is in memory. Pure; namespace, name, uid and resourceVersion stay as they are. With the option `maxTextBytes` the
 * object lacks the ends of long texts, and `removedBytes` says how much that is.
 */
type Transform<S, T> = (object: S, removedBytes: number) => T;

export type ReflectorOptions<S extends KubeObject, T extends KubeObject = S> = CommonOptions<S, T> &
  // Without a transform the store holds what the server sends.
  ([S] extends [T] ? { readonly transform?: Transform<S, T> } : { readonly transform: Transform<S, T> });

/** client-go's: 800 ms to 30 s, doubled, and forgotten after two minutes of health. */
const backoff: BackoffOptions = { baseMs: 800, capMs: 30_000, jitter: 1 };
const healthyMs = 120_000;

/** A watch that ends sooner and has said nothing is a fault of the server, not the end of its time. */
const shortWatchMs = 1000;

type Cause = 'timeout' | 'short' | 'expired' | 'silent' | 'connection' | 'refused';

/**
 * Keeps a store equal to what the API server has, by a list and a watch that goes on from it, for as long as it runs: whatever
 * fails is tried again. Objects whose schema is not the one we know are left out, as if they did not exist.
 * @typeParam S What the API server sends.
 * @typeParam T What the store holds.
 */
export class Reflector<S extends KubeObject, T extends KubeObject = S> {
  readonly #options: CommonOptions<S, T>;
  readonly #transform: Transform<S, T>;
  readonly #logger: Logger;
  readonly #store: IndexedStore<T>;
  readonly #abort = new AbortController();
  readonly #firstSync = Promise.withResolvers<undefined>();
  /** The uid and version of what was refused, so that each is logged once. */
  #refused = new Map<string, string>();
  // Copied on change: who is added during a notification has been told of everything already.
  #handlers: readonly Handler<T>[] = [];
  #running: Promise<void> | undefined;
  #synced = false;
  #failures = 0;
  /** The end of the last wait. */
  #beganAt = 0;

  constructor(options: ReflectorOptions<S, T>) {
    this.#options = options;
    const { transform }: { readonly transform?: Transform<S, T> } = options;
    // By the type of the options, S is a T where there is no transform.
    this.#transform = transform ?? ((object) => object as unknown as T);
    this.#logger = options.logger.child({ resource: options.resource.plural });
    this.#store = new IndexedStore(options.indexers);
    // Nobody has to wait for it.
    this.#firstSync.promise.catch(() => undefined);
  }

  get store(): Store<T> {
    return this.#store;
  }

  /** The store holds a whole list, and handlers know of it. Stays true. */
  get hasSynced(): boolean {
    return this.#synced;
  }

  /**
   * The handler gets `added` for everything that is there, before this returns. A handler that throws is logged and harms no
   * one else. Returns the remover.
   */
  addHandler(handler: Handler<T>): () => void {
    this.#handlers = [...this.#handlers, handler];
    for (const object of this.#store.list()) this.#tell(handler, (one) => one.added?.(object));
    return () => {
      this.#handlers = this.#handlers.filter((other) => other !== handler);
    };
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves when nothing runs any more. The store stays as it is; handlers hear no more. */
  async stop(): Promise<void> {
    const reason = new Error(`the reflector of ${this.#options.resource.plural} was stopped`);
    this.#abort.abort(reason);
    this.#firstSync.reject(reason);
    await this.#running;
  }

  /** Resolves when `hasSynced`; rejects when the reflector is stopped before, or with the signal's reason. */
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
    // Undefined: a list is needed.
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
    const take = (object: S, removedBytes: number) =>
      this.#accepts(object, this.#refused, refused) ? this.#transform(object, removedBytes) : undefined;
    // No version asked for: the list is a consistent read, never older than what is known already.
    const list = await client.listMapped(resource, take, { signal, ...this.#selection() });
    this.#refused = refused;
    // From here to the end in one turn: no one sees a half of the list.
    const present = new Set(list.items.map(({ metadata }) => metadata.uid));
    for (const object of this.#store.list()) if (!present.has(object.metadata.uid)) this.#remove(object);
    for (const object of list.items) this.#put(object);
    if (!this.#synced) {
      this.#synced = true;
      this.#firstSync.resolve(undefined);
    }
    return list.resourceVersion;
  }

  #selection(): ListOptions & ShorteningOptions {
    const { namespace, labelSelector, maxTextBytes } = this.#options;
    return {
      ...(namespace === undefined ? {} : { namespace }),
      ...(labelSelector === undefined ? {} : { labelSelector }),
      ...(maxTextBytes === undefined ? {} : { maxTextBytes }),
    };
  }

  /** Returns the version to go on from once the server has ended the stream; throws a WatchFailure for everything else. */
  async #watch(from: string, signal: AbortSignal): Promise<string | undefined> {
    const { client, resource, clock, random, silenceMs = 150_000 } = this.#options;
    const began = clock.monotonic();
    const silence = new Watchdog(clock, silenceMs);
    let resourceVersion = from;
    let events = 0;
    try {
      const stream = client.watch(resource, {
        ...this.#selection(),
        resourceVersion,
        timeoutSeconds: 300 + Math.floor(random() * 301),
        signal: AbortSignal.any([signal, silence.signal]),
      });
      for await (const event of stream) {
        if (signal.aborted) return undefined;
        silence.heard();
        events++;
        resourceVersion = this.#apply(event);
      }
    } catch (error) {
      if (silence.signal.aborted) throw new WatchFailure('silent', resourceVersion, silence.signal.reason);
      throw watchFailure(error, resourceVersion);
    } finally {
      silence.stop();
    }
    if (silence.signal.aborted) throw new WatchFailure('silent', resourceVersion, silence.signal.reason);
    if (events === 0 && clock.monotonic() - began < shortWatchMs) throw new WatchFailure('short', resourceVersion, undefined);
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
      if (known?.metadata.uid === uid) this.#remove(known);
    } else if (this.#accepts(object, this.#refused, this.#refused)) {
      this.#put(this.#transform(object, event.removedBytes ?? 0));
    } else {
      const known = this.#store.get(namespace, name);
      if (known !== undefined) this.#remove(known);
    }
    return resourceVersion;
  }

  #put(object: T): void {
    const { namespace = '', name, uid, resourceVersion } = object.metadata;
    const known = this.#store.get(namespace, name);
    if (known !== undefined && known.metadata.uid !== uid) {
      this.#remove(known);
    } else if (known !== undefined) {
      if (known.metadata.resourceVersion === resourceVersion) return;
      this.#store.set(object);
      this.#tellAll((handler) => handler.updated?.(object, known));
      return;
    }
    this.#store.set(object);
    this.#tellAll((handler) => handler.added?.(object));
  }

  #remove(object: T): void {
    const { namespace = '', name } = object.metadata;
    this.#store.delete(namespace, name);
    this.#tellAll((handler) => handler.deleted?.(object));
  }

  #accepts(object: S, logged: ReadonlyMap<string, string>, refused: Map<string, string>): boolean {
    const { accepts } = this.#options.resource;
    const { namespace, name, uid, resourceVersion } = object.metadata;
    if (accepts === undefined || accepts(object)) {
      // Nearly always: of every event, and a look-up costs.
      if (refused.size > 0) refused.delete(uid);
      return true;
    }
    if (logged.get(uid) !== resourceVersion) this.#logger.warn('Object with an unknown schema is left out', { namespace, name, uid });
    refused.set(uid, resourceVersion);
    return false;
  }

  #tellAll(tell: (handler: Handler<T>) => void): void {
    for (const handler of this.#handlers) this.#tell(handler, tell);
  }

  #tell(handler: Handler<T>, tell: (handler: Handler<T>) => void): void {
    try {
      tell(handler);
    } catch (error) {
      this.#logger.error('Handler failed', { error });
    }
  }

  async #failed(cause: Cause, error: unknown): Promise<void> {
    const { clock, random, metrics, resource } = this.#options;
    metrics?.watchRestarts.inc({ resource: resource.plural, cause });
    if (clock.monotonic() - this.#beganAt >= healthyMs) this.#failures = 0;
    this.#failures++;
    // An expired version is an ordinary thing after a long break, and a new list mends it: no wait for the first.
    const delayMs = cause === 'expired' && this.#failures === 1 ? 0 : backoffDelayMs(backoff, this.#failures, random);
    // Before the first list nothing works, and whoever looks for the reason looks here.
    if (!this.#synced) this.#logger.warn('The first list failed and is asked for again', { cause, delayMs, error });
    else this.#logger[cause === 'refused' ? 'warn' : 'debug']('Watch is begun again', { cause, delayMs, error });
    try {
      await sleep(clock, delayMs, this.#abort.signal);
    } catch {
      // Stopped meanwhile; the loop sees that.
    }
    this.#beganAt = clock.monotonic();
  }
}

class WatchFailure extends Error {
  override readonly name = 'WatchFailure';
  readonly reason: Cause;
  /** Undefined: only a new list helps. */
  readonly resumeFrom: string | undefined;

  constructor(reason: Cause, resumeFrom: string | undefined, cause: unknown) {
    super(`watch failed: ${reason}`, { cause });
    this.reason = reason;
    this.resumeFrom = resumeFrom;
  }
}

/** A lost connection or an overloaded server says nothing against the version reached; any other refusal may. */
function watchFailure(error: unknown, resourceVersion: string): WatchFailure {
  if (isExpired(error)) return new WatchFailure('expired', undefined, error);
  if (error instanceof TransportError) return new WatchFailure('connection', resourceVersion, error);
  const passing = error instanceof ApiError && (error.status === 429 || error.status >= 500);
  return new WatchFailure('refused', passing ? resourceVersion : undefined, error);
}
