import type { KubeObject } from './object.ts';

/** What is known of a kind. Objects are shared by everyone who reads them and never changed. */
export interface Store<T extends KubeObject> {
  /** The namespace is '' for kinds without one. */
  get(namespace: string, name: string): T | undefined;
  /** A snapshot: later changes make a new array and leave this one alone. */
  list(): readonly T[];
  /** A snapshot of the objects that the indexer of this name has given this value. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
}

/** The values under which an object is found in each index. Pure: the same object has the same values for ever. */
export type Indexers<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

const nothing: readonly never[] = [];

/** One object for as long as it exists, whatever becomes of it: who holds the entry has its newest state. */
interface Entry<T> {
  object: T;
  /** Where it is found, in the order of the indexers. */
  buckets: readonly Bucket<T>[];
}

/** Entries, with the array of their objects that was last given out as long as it is still right. */
class Bucket<T> {
  readonly index: Index<T> | undefined;
  readonly value: string;
  /** The one entry, as long as there has not been another: many values have one object each, and a set for one takes 200 bytes. */
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

  /** An entry that is in already keeps its place. */
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

  /** To be called when an entry of it has got another object. */
  changed(): void {
    this.#snapshot = undefined;
  }

  list(): readonly T[] {
    this.#snapshot ??= Array.from(this.#entries ?? (this.#only === undefined ? [] : [this.#only]), ({ object }) => object);
    return this.#snapshot;
  }
}

interface Index<T> {
  readonly name: string;
  readonly valuesOf: (object: T) => readonly string[];
  /** By value; none is empty. */
  readonly buckets: Map<string, Bucket<T>>;
}

/**
 * Objects by namespace and name, and by the values of indexers. Changes take constant time, and one that leaves an object in
 * its indexes touches none of them; an array is built when it is asked for, and again only after a change within it.
 */
export class IndexedStore<T extends KubeObject> implements Store<T> {
  readonly #indexes: readonly Index<T>[];
  readonly #all = new Bucket<T>();
  // Nested, so that neither a look-up nor an entry needs a key put together from both.
  readonly #byName = new Map<string, Map<string, Entry<T>>>();

  constructor(indexers: Indexers<T> = {}) {
    this.#indexes = Object.entries(indexers).map(([name, valuesOf]) => ({ name, valuesOf, buckets: new Map<string, Bucket<T>>() }));
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

  /** Puts an object in the place of the one of the same name, if there is one. */
  set(object: T): void {
    const { namespace = '', name, uid } = object.metadata;
    // All indexers run before anything changes, so that one that throws leaves no half-entered object.
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

  /** Returns what was there. */
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
    const buckets = this.#indexes.flatMap((index, at) => (values[at] ?? nothing).map((value) => bucketOf(index, value)));
    for (const bucket of buckets) bucket.add(entry);
    this.#leave(entry, buckets);
    // A copy has room for its elements alone; what flatMap makes has room for more than ten others.
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
