import { isNewerVersion, type KubeObject } from '../resources/object.ts';
import type { Store } from './store.ts';

/** Entries that are looked at with each observation: more than one, so that what the cache has caught up with goes sooner than more comes. */
const sweptAtOnce = 2;

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
    const known = this.get(namespace, name);
    if (known !== undefined && isNewerVersion(object, known)) this.#ahead.set(`${namespace}/${name}`, object);
    this.#sweep();
  }

  /** Nobody may ever ask again for what was written last. */
  #sweep(): void {
    let left = sweptAtOnce;
    for (const [key, { metadata }] of this.#ahead) {
      if (left-- === 0) return;
      const newest = this.get(metadata.namespace ?? '', metadata.name);
      if (!this.#ahead.delete(key) || newest === undefined) continue;
      this.#ahead.set(key, newest);
    }
  }
}
