import { type KubeObject, isNewerVersion } from './object.ts';
import type { Clock } from '@conversation-operator/base/clock';

/** The cached objects of a kind. All readers share the objects and never change them. */
export interface Store<T extends KubeObject> {
  /** The namespace is '' for cluster-scoped kinds. */
  get(namespace: string, name: string): T | undefined;
  /** Returns a snapshot: later changes create a new array and leave this one unchanged. */
  list(): readonly T[];
  /** Returns a snapshot of the objects with this value in the named index. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
}

/** Functions by index name. Each returns an object's values in the index, without side effects. */
export type Indexers<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

const nothing: readonly never[] = [];

/** Entry of an object, which its buckets share. An update of the object replaces `object`. */
interface Entry<T> {
  object: T;
  /** Buckets of the indexes that contain the entry, in the order of the indexes. */
  buckets: readonly Bucket<T>[];
}

/** A set of entries. Keeps the last array that `list` returned until one of the entries changes. */
class Bucket<T> {
  readonly index: Index<T> | undefined;
  readonly value: string;
  /** The only entry, until a second is added. Most buckets thus need no `#entries` (200 bytes). */
  #only: Entry<T> | undefined;
  #entries: Set<Entry<T>> | undefined;
  #snapshot: readonly T[] | undefined;

  constructor(index?: Index<T>, value = '') {
    this.index = index;
    this.value = value;
  }

  get size(): number {
    return this.#entries?.size ?? (this.#only === undefined ? 0 : 1);
  }

  /** Adds an entry. An entry that the bucket already has keeps its position. */
  add(entry: Entry<T>): void {
    if (this.#entries !== undefined) this.#entries.add(entry);
    else if (this.#only === undefined) this.#only = entry;
    else if (this.#only !== entry) {
      this.#entries = new Set([this.#only, entry]);
      this.#only = undefined;
    }
    this.#snapshot = undefined;
  }

  delete(entry: Entry<T>): void {
    if (this.#entries !== undefined) this.#entries.delete(entry);
    else if (this.#only === entry) this.#only = undefined;
    this.#snapshot = undefined;
    if (this.size === 0) this.index?.buckets.delete(this.value);
  }

  /** Discards the array that `list` keeps, because the object of an entry was replaced. */
  changed(): void {
    this.#snapshot = undefined;
  }

  /** Builds the array of a single object for each call. Keeping it takes 100 bytes per bucket. */
  list(): readonly T[] {
    if (this.#entries === undefined) return this.#only === undefined ? [] : [this.#only.object];
    this.#snapshot ??= Array.from(this.#entries, ({ object }) => object);
    return this.#snapshot;
  }
}

interface Index<T> {
  readonly name: string;
  readonly valuesOf: (object: T) => readonly string[];
  /** Buckets by value; no bucket is empty. */
  readonly buckets: Map<string, Bucket<T>>;
}

/**
 * Objects by namespace and name, and by the values of indexers. A change takes constant time, and
 * does not touch the indexes if the object keeps its values. `list` and `byIndex` build an array of
 * several objects when they are called, and return the same array until the next change.
 */
export class IndexedStore<T extends KubeObject> implements Store<T> {
  readonly #indexes: readonly Index<T>[];
  readonly #all = new Bucket<T>();
  // The maps are nested, so that neither a lookup nor an entry needs a concatenated key.
  readonly #byName = new Map<string, Map<string, Entry<T>>>();

  constructor(indexers: Indexers<T> = {}) {
    this.#indexes = Object.entries(indexers).map(([name, valuesOf]) => ({
      name,
      valuesOf,
      buckets: new Map<string, Bucket<T>>(),
    }));
  }

  get size(): number {
    return this.#all.size;
  }

  get(namespace: string, name: string): T | undefined {
    return this.#byName.get(namespace)?.get(name)?.object;
  }

  list(): readonly T[] {
    return this.#all.list();
  }

  byIndex(index: string, value: string): readonly T[] {
    const found = this.#indexes.find(({ name }) => name === index);
    if (found === undefined) throw new RangeError(`the store has no index '${index}'`);
    return found.buckets.get(value)?.list() ?? nothing;
  }

  set(object: T): void {
    const { namespace = '', name, uid } = object.metadata;
    // All indexers run before any change, so an indexer that throws leaves no partial index.
    const values = this.#indexes.map(({ valuesOf }) => valuesOf(object));
    let names = this.#byName.get(namespace);
    let entry = names?.get(name);
    if (entry !== undefined && entry.object.metadata.uid !== uid) {
      this.#leave(entry, []);
      this.#all.delete(entry);
      entry = undefined;
    }
    if (entry === undefined) {
      if (names === undefined) this.#byName.set(namespace, (names = new Map<string, Entry<T>>()));
      entry = { object, buckets: [] };
      names.set(name, entry);
      this.#all.add(entry);
    } else {
      entry.object = object;
      this.#all.changed();
    }
    if (this.#isIn(entry, values)) for (const bucket of entry.buckets) bucket.changed();
    else this.#move(entry, values);
  }

  delete(namespace: string, name: string): T | undefined {
    const names = this.#byName.get(namespace);
    const entry = names?.get(name);
    if (names === undefined || entry === undefined) return undefined;
    this.#leave(entry, []);
    this.#all.delete(entry);
    names.delete(name);
    if (names.size === 0) this.#byName.delete(namespace);
    return entry.object;
  }

  #isIn({ buckets }: Entry<T>, values: readonly (readonly string[])[]): boolean {
    let at = 0;
    let position = 0;
    for (const index of this.#indexes) {
      for (const value of values[at++] ?? nothing) {
        const bucket = buckets[position++];
        if (bucket?.index !== index || bucket.value !== value) return false;
      }
    }
    return position === buckets.length;
  }

  #move(entry: Entry<T>, values: readonly (readonly string[])[]): void {
    const buckets = this.#indexes.flatMap((index, at) =>
      (values[at] ?? nothing).map((value) => bucketOf(index, value)),
    );
    for (const bucket of buckets) bucket.add(entry);
    this.#leave(entry, buckets);
    // The array that `flatMap` returns has room for ten more items. The copy by `slice` has none.
    entry.buckets = buckets.slice();
  }

  #leave(entry: Entry<T>, staying: readonly Bucket<T>[]): void {
    for (const bucket of entry.buckets) if (!staying.includes(bucket)) bucket.delete(entry);
  }
}

function bucketOf<T>(index: Index<T>, value: string): Bucket<T> {
  let bucket = index.buckets.get(value);
  if (bucket === undefined) index.buckets.set(value, (bucket = new Bucket(index, value)));
  return bucket;
}

/** Maximum entries that a call of `#sweep` checks. At most one is added between two calls. */
const maxSweptEntries = 2;
/** From this number of entries on, `#sweep` removes those of objects that `get` does not return. */
const maxAbsentEntries = 1_000;

/** Time after `created` during which `get` returns an object even if the cache lacks it. */
const unseenMs = 1_000;

interface Ahead<T> {
  readonly object: T;
  /** Monotonic time at which `created` recorded the object; absent if `observe` recorded it. */
  readonly createdAt?: number;
}

/**
 * A cache that also returns newer versions that this process has written or read, like client-go's
 * MutationCache, because the API server rejects a write that is based on an older version. An
 * object that the cache lacks counts as deleted, unless it was created within the last second: a
 * reconcile would otherwise ask the API server for the object, or create it again.
 */
export class NewestStore<T extends KubeObject> {
  readonly #cache: Pick<Store<T>, 'get'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Newer versions by namespace and name. `#sweep` checks the first ones and moves them back. */
  readonly #ahead = new Map<string, Ahead<T>>();

  constructor(cache: Pick<Store<T>, 'get'>, clock: Pick<Clock, 'monotonic'>) {
    this.#cache = cache;
    this.#clock = clock;
  }

  get size(): number {
    return this.#ahead.size;
  }

  get(namespace: string, name: string): T | undefined {
    const cached = this.#cache.get(namespace, name);
    const key = `${namespace}/${name}`;
    const ahead = this.#ahead.get(key);
    if (ahead === undefined) return cached;
    const { object, createdAt = -Infinity } = ahead;
    // The object was deleted, or was just created and is not in the cache yet.
    if (cached === undefined)
      return this.#clock.monotonic() - createdAt < unseenMs ? object : undefined;
    if (isNewerVersion(object, cached)) return object;
    this.#ahead.delete(key);
    return cached;
  }

  /** Records a version that the API server has returned. */
  observe(object: T): void {
    const { namespace = '', name } = object.metadata;
    const key = `${namespace}/${name}`;
    const known = this.get(namespace, name) ?? this.#ahead.get(key)?.object;
    if (known === undefined || isNewerVersion(object, known)) this.#ahead.set(key, { object });
    this.#sweep();
  }

  /** Records an object that was just created, unless it is in the cache or already recorded. */
  created(object: T | undefined): void {
    if (object === undefined) return;
    const { namespace = '', name } = object.metadata;
    if (this.get(namespace, name) !== undefined) return;
    this.#ahead.set(`${namespace}/${name}`, { object, createdAt: this.#clock.monotonic() });
    this.#sweep();
  }

  /** Removes the obsolete entries of objects that are not read again. `get` removes all others. */
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
