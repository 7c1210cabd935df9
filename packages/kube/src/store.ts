import type { KubeObject } from './object.ts';

/** Known objects of a kind. All readers share the objects and never change them. */
export interface Store<T extends KubeObject> {
  /** Returns an object. The namespace is '' for cluster-scoped kinds. */
  get(namespace: string, name: string): T | undefined;
  /** Returns a snapshot: later changes create a new array and leave this one unchanged. */
  list(): readonly T[];
  /** Returns a snapshot of the objects to which the indexer of this name has given this value. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
}

/** Pure functions that return the values of an object in each index. */
export type Indexers<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

const nothing: readonly never[] = [];

/** Entry of an object while it exists; it always holds the newest state. */
interface Entry<T> {
  object: T;
  /** Buckets that hold the entry, in the order of the indexers. */
  buckets: readonly Bucket<T>[];
}

/** Entries, with the last returned array of their objects as long as that array is current. */
class Bucket<T> {
  readonly index: Index<T> | undefined;
  readonly value: string;
  /** Only entry of a bucket that never held two, as most: a set would take 200 bytes. */
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

  /** Adds an entry. An entry that the bucket already holds keeps its position. */
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

  /** Invalidates the snapshot when the object of an entry was replaced. */
  changed(): void {
    this.#snapshot = undefined;
  }

  list(): readonly T[] {
    this.#snapshot ??= Array.from(
      this.#entries ?? (this.#only === undefined ? [] : [this.#only]),
      ({ object }) => object,
    );
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
 * Objects by namespace and name, and by the values of indexers. Changes take constant time, and a
 * change that leaves the values of an object the same does not touch the indexes. The store builds
 * an array on request, and again only after a change.
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

  /** Adds an object, or replaces the object of the same name. */
  set(object: T): void {
    const { namespace = '', name, uid } = object.metadata;
    // All indexers run before any change, so that an indexer that throws leaves no partially
    // indexed object.
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

  /** Returns the removed object. */
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
    // The copy has capacity for its elements alone, whereas the array of flatMap has capacity for
    // more than ten others.
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
