import type { Clock } from '@conversation-operator/base/clock';
import { isNewerVersion, type KubeObject } from './object.ts';
import type { Store } from './store.ts';

/**
 * Maximum entries that each observation checks. A value above one removes entries that the cache
 * has caught up with faster than new entries arrive.
 */
const maxSweptEntries = 2;
/** Maximum entries for objects that the cache lacks: they may have been deleted. */
const maxAbsentEntries = 1_000;

/** Maximum time for which a cache need not show an object that was just created. */
const unseenMs = 1_000;

interface Ahead<T> {
  readonly object: T;
  /** Monotonic time of the call of `created`; absent for an object that the cache has shown. */
  readonly createdAt?: number;
}

/**
 * A cache together with the newer versions that were written or read while the cache is behind,
 * like the MutationCache of client-go, because the API server rejects a write that is based on an
 * older version. An object that the cache lacks is gone, unless it was created within the last
 * second: a reconcile in between would ask the API server for it, or create it again.
 */
export class NewestStore<T extends KubeObject> {
  readonly #cache: Pick<Store<T>, 'get'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Newer versions by namespace and name, the least recently checked one first. */
  readonly #ahead = new Map<string, Ahead<T>>();

  constructor(cache: Pick<Store<T>, 'get'>, clock: Pick<Clock, 'monotonic'>) {
    this.#cache = cache;
    this.#clock = clock;
  }

  /** Number of objects that are kept beside the cache. */
  get size(): number {
    return this.#ahead.size;
  }

  get(namespace: string, name: string): T | undefined {
    const cached = this.#cache.get(namespace, name);
    const key = `${namespace}/${name}`;
    const ahead = this.#ahead.get(key);
    if (ahead === undefined) return cached;
    const { object, createdAt = -Infinity } = ahead;
    // The object was deleted and recreated; the cache learns of both events in order.
    if (cached === undefined)
      return this.#clock.monotonic() - createdAt < unseenMs ? object : undefined;
    if (isNewerVersion(object, cached)) return object;
    this.#ahead.delete(key);
    return cached;
  }

  /** Records a version that the API server has stored. */
  observe(object: T): void {
    const { namespace = '', name } = object.metadata;
    const key = `${namespace}/${name}`;
    const known = this.get(namespace, name) ?? this.#ahead.get(key)?.object;
    if (known === undefined || isNewerVersion(object, known)) this.#ahead.set(key, { object });
    this.#sweep();
  }

  /** Records an object that was just created, unless the cache shows it or it is recorded already. */
  created(object: T | undefined): void {
    if (object === undefined) return;
    const { namespace = '', name } = object.metadata;
    if (this.get(namespace, name) !== undefined) return;
    this.#ahead.set(`${namespace}/${name}`, { object, createdAt: this.#clock.monotonic() });
    this.#sweep();
  }

  /** Checks the oldest entries, because no caller may read an object again after its last write. */
  #sweep(): void {
    let left = maxSweptEntries;
    for (const [key, ahead] of this.#ahead) {
      if (left-- === 0) return;
      const { namespace = '', name } = ahead.object.metadata;
      const isAbsent = this.get(namespace, name) === undefined;
      if (!this.#ahead.delete(key) || (isAbsent && this.#ahead.size >= maxAbsentEntries)) continue;
      this.#ahead.set(key, ahead);
    }
  }
}
