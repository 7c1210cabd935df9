import type { KubeObject } from '../resources/object.ts';

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

/** Objects by uid, with the array that was last given out as long as it is still right. */
class Bucket<T extends KubeObject> {
  readonly #objects = new Map<string, T>();
  #snapshot: readonly T[] | undefined;

  get size(): number {
    return this.#objects.size;
  }

  set(object: T): void {
    this.#objects.set(object.metadata.uid, object);
    this.#snapshot = undefined;
  }

  delete(object: T): void {
    this.#objects.delete(object.metadata.uid);
    this.#snapshot = undefined;
  }

  list(): readonly T[] {
    this.#snapshot ??= [...this.#objects.values()];
    return this.#snapshot;
  }
}

/**
 * Objects by namespace and name, and by the values of indexers. Changes take constant time; an array is built when it is asked
 * for, and again only after a change within it.
 */
export class IndexedStore<T extends KubeObject> implements Store<T> {
  readonly #indexers: readonly (readonly [string, Indexers<T>[string]])[];
  readonly #indexes: ReadonlyMap<string, Map<string, Bucket<T>>>;
  readonly #all = new Bucket<T>();
  // Nested, so that neither a look-up nor an entry needs a key put together from both.
  readonly #byName = new Map<string, Map<string, T>>();

  constructor(indexers: Indexers<T> = {}) {
    this.#indexers = Object.entries(indexers);
    this.#indexes = new Map(this.#indexers.map(([name]) => [name, new Map<string, Bucket<T>>()]));
  }

  get size(): number {
    return this.#all.size;
  }

  get(namespace: string, name: string): T | undefined {
    return this.#byName.get(namespace)?.get(name);
  }

  list(): readonly T[] {
    return this.#all.list();
  }

  byIndex(index: string, value: string): readonly T[] {
    return this.#index(index).get(value)?.list() ?? nothing;
  }

  /** Puts an object in the place of the one of the same name, if there is one. */
  set(object: T): void {
    const { namespace = '', name, uid } = object.metadata;
    const old = this.get(namespace, name);
    // All indexers run before anything changes, so that one that throws leaves no half-entered object.
    const entries = this.#entriesOf(object);
    if (old !== undefined) this.#unindex(old, old.metadata.uid === uid ? entries : []);
    for (const [index, value] of entries) {
      const buckets = this.#index(index);
      let bucket = buckets.get(value);
      if (bucket === undefined) buckets.set(value, (bucket = new Bucket()));
      bucket.set(object);
    }
    if (old !== undefined && old.metadata.uid !== uid) this.#all.delete(old);
    this.#all.set(object);
    let names = this.#byName.get(namespace);
    if (names === undefined) this.#byName.set(namespace, (names = new Map<string, T>()));
    names.set(name, object);
  }

  /** Returns what was there. */
  delete(namespace: string, name: string): T | undefined {
    const names = this.#byName.get(namespace);
    const old = names?.get(name);
    if (names === undefined || old === undefined) return undefined;
    this.#unindex(old, []);
    this.#all.delete(old);
    names.delete(name);
    if (names.size === 0) this.#byName.delete(namespace);
    return old;
  }

  /** Leaves what `staying` will overwrite, so that an object that changes keeps its place in the order. */
  #unindex(old: T, staying: readonly (readonly [string, string])[]): void {
    for (const [index, value] of this.#entriesOf(old)) {
      if (staying.some((entry) => entry[0] === index && entry[1] === value)) continue;
      const buckets = this.#index(index);
      const bucket = buckets.get(value);
      bucket?.delete(old);
      if (bucket?.size === 0) buckets.delete(value);
    }
  }

  #entriesOf(object: T): (readonly [string, string])[] {
    return this.#indexers.flatMap(([index, valuesOf]) => valuesOf(object).map((value) => [index, value] as const));
  }

  #index(name: string): Map<string, Bucket<T>> {
    const index = this.#indexes.get(name);
    if (index === undefined) throw new RangeError(`the store has no index '${name}'`);
    return index;
  }
}
