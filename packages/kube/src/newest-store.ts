import { isNewerVersion, type KubeObject } from './object.ts';
import type { Store } from './store.ts';

/** Entries that are looked at with each observation: more than one, so that what the cache has caught up with goes sooner than more comes. */
const sweptAtOnce = 2;
/** So many entries are kept in any case: one that the cache does not have may have been deleted, and made again. */
const maxAbsent = 1_000;

/**
 * A cache together with what was written or read since, for as long as the cache is behind it: what is decided on an older version can't be
 * written. Only objects of the cache are known; one that it does not have is gone.
 */
export class NewestStore<T extends KubeObject> {
  readonly #cache: Pick<Store<T>, 'get'>;
  /** By namespace and name, the one first that was looked at longest ago. */
  readonly #ahead = new Map<string, T>();

  constructor(cache: Pick<Store<T>, 'get'>) {
    this.#cache = cache;
  }

  /** How many objects are kept beside the cache. */
  get size(): number {
    return this.#ahead.size;
  }

  get(namespace: string, name: string): T | undefined {
    const cached = this.#cache.get(namespace, name);
    const key = `${namespace}/${name}`;
    const ahead = this.#ahead.get(key);
    if (ahead === undefined) return cached;
    // Deleted and made again: the cache learns of both one after the other.
    if (cached === undefined) return undefined;
    if (isNewerVersion(ahead, cached)) return ahead;
    this.#ahead.delete(key);
    return cached;
  }

  /** The API server has had this version. */
  observe(object: T): void {
    const { namespace = '', name } = object.metadata;
    const key = `${namespace}/${name}`;
    const known = this.get(namespace, name) ?? this.#ahead.get(key);
    if (known === undefined || isNewerVersion(object, known)) this.#ahead.set(key, object);
    this.#sweep();
  }

  /** Nobody may ever ask again for what was written last. */
  #sweep(): void {
    let left = sweptAtOnce;
    for (const [key, object] of this.#ahead) {
      if (left-- === 0) return;
      const { namespace = '', name } = object.metadata;
      const isAbsent = this.get(namespace, name) === undefined;
      if (!this.#ahead.delete(key) || (isAbsent && this.#ahead.size >= maxAbsent)) continue;
      this.#ahead.set(key, object);
    }
  }
}
