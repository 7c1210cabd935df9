import type { Clock } from '@conversation-operator/base/clock';
import { isNewerVersion, type KubeObject } from '@conversation-operator/kube/object';
import type { Cache } from './cache.ts';

/** Listeners by name. A name without listeners takes no memory. */
export class Listeners<Event = void> {
  readonly #byName = new Map<string, Set<(event: Event) => void>>();

  get size(): number {
    return this.#byName.values().reduce((total, { size }) => total + size, 0);
  }

  on(name: string, listener: (event: Event) => void): () => void {
    const listeners = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byName.get(name) === listeners) this.#byName.delete(name);
    };
  }

  /** Waits for an event that `holds` accepts; resolves with undefined after the timeout. */
  next(
    name: string,
    clock: Clock,
    timeoutMs: number,
    holds: (event: Event) => boolean = () => true,
  ): Promise<Event | undefined> {
    return new Promise((resolve) => {
      const end = (event?: Event) => {
        remove();
        timer.cancel();
        resolve(event);
      };
      const remove = this.on(name, (event) => {
        if (holds(event)) end(event);
      });
      const timer = clock.after(timeoutMs, () => end());
    });
  }

  call(name: string, event: Event): void {
    for (const listener of [...(this.#byName.get(name) ?? [])]) listener(event);
  }
}

/** Called with each state of an object in the cache, and with undefined after its deletion. */
export type Listener<T> = (object: T | undefined) => void;

interface ObjectFeedOptions<T extends KubeObject> {
  readonly cache: Cache<T>;
  readonly clock: Clock;
  readonly namespace: string;
}

/**
 * Notifies the listeners of one object of its changes in a cache. The feed has one handler on the
 * cache for all listeners, because a cache first reports every object to a new handler.
 */
export class ObjectFeed<T extends KubeObject> {
  readonly #options: ObjectFeedOptions<T>;
  readonly #listeners = new Listeners<T | undefined>();
  #remove: (() => void) | undefined;

  constructor(options: ObjectFeedOptions<T>) {
    this.#options = options;
  }

  open(): void {
    this.#remove ??= this.#options.cache.addHandler({
      added: (object) => this.#notify(object, object),
      updated: (object) => this.#notify(object, object),
      deleted: (object) => this.#notify(object, undefined),
    });
  }

  close(): void {
    this.#remove?.();
    this.#remove = undefined;
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** Adds a listener for later changes only. Returns a function that removes the listener. */
  on(name: string, listener: Listener<T>): () => void {
    return this.#listeners.on(name, listener);
  }

  /**
   * Waits at most `timeoutMs` until `holds` accepts the object in the cache, or undefined if there
   * is none. Resolves with what `holds` has accepted, or with undefined after the timeout.
   */
  settled(
    name: string,
    holds: (object: T | undefined) => boolean,
    timeoutMs = 500,
  ): Promise<T | undefined> {
    const { cache, clock, namespace } = this.#options;
    const known = cache.store.get(namespace, name);
    return holds(known)
      ? Promise.resolve(known)
      : this.#listeners.next(name, clock, timeoutMs, holds);
  }

  /**
   * Waits at most 500 ms until the cache shows a written object or a newer version of it. Does not
   * wait if the cache has no such object.
   */
  async shows(written: T): Promise<void> {
    await this.settled(
      written.metadata.name,
      (seen) => seen === undefined || !isNewerVersion(written, seen),
    );
  }

  #notify(object: T, state: T | undefined): void {
    if (object.metadata.namespace === this.#options.namespace)
      this.#listeners.call(object.metadata.name, state);
  }
}
