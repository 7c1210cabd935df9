import type { Clock } from '@conversation-operator/kube/clock';
import { isNewerVersion, type KubeObject } from '@conversation-operator/kube/object';
import type { Cache } from './cache.ts';

/** Called with each state of an object that the cache sees, and with undefined when it is gone. */
export type Listener<T> = (object: T | undefined) => void;

/**
 * Tells those who wait for one object what a cache reports about it. It has one handler on the cache for all of them, because a
 * handler that is added is first told about every object there is.
 */
export class ObjectFeed<T extends KubeObject> {
  readonly #cache: Cache<T>;
  readonly #clock: Clock;
  readonly #namespace: string;
  readonly #listeners = new Map<string, Set<Listener<T>>>();
  #remove: (() => void) | undefined;

  constructor(options: { cache: Cache<T>; clock: Clock; namespace: string }) {
    this.#cache = options.cache;
    this.#clock = options.clock;
    this.#namespace = options.namespace;
  }

  open(): void {
    this.#remove ??= this.#cache.addHandler({
      added: (object) => this.#tell(object, object),
      updated: (object) => this.#tell(object, object),
      deleted: (object) => this.#tell(object, undefined),
    });
  }

  close(): void {
    this.#remove?.();
    this.#remove = undefined;
  }

  /** How many listen, over all objects. */
  get size(): number {
    return this.#listeners.values().reduce((total, { size }) => total + size, 0);
  }

  /** From now on; what the cache holds already is not told. Returns the remover. */
  on(name: string, listener: Listener<T>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name);
    };
  }

  /**
   * Waits until the cache shows what was just written, so that its writer reads it back; at most `timeoutMs`.
   * @returns What it shows; undefined where it has no such object, or the time was over.
   */
  settled(name: string, holds: (object: T | undefined) => boolean, timeoutMs = 500): Promise<T | undefined> {
    const known = this.#cache.store.get(this.#namespace, name);
    if (holds(known)) return Promise.resolve(known);
    return new Promise((resolve) => {
      const end = (object?: T) => {
        remove();
        timer.cancel();
        resolve(object);
      };
      const remove = this.on(name, (object) => {
        if (holds(object)) end(object);
      });
      const timer = this.#clock.after(timeoutMs, () => end());
    });
  }

  /** The same for a write whose answer is at hand. An object that the cache does not have is looked up elsewhere. */
  async shows(written: T): Promise<void> {
    await this.settled(written.metadata.name, (seen) => seen === undefined || !isNewerVersion(written, seen));
  }

  #tell(object: T, state: T | undefined): void {
    if (object.metadata.namespace !== this.#namespace) return;
    for (const listener of [...(this.#listeners.get(object.metadata.name) ?? [])]) listener(state);
  }
}
