export interface ByteCacheOptions {
  /** Maximum bytes of everything that is kept. */
  readonly maxBytes: number;
  /** Maximum bytes of one owner: less than the total, so that one owner's values never take the place of everybody else's. */
  readonly maxOwnerBytes: number;
}

interface Entry<V> {
  readonly owner: string;
  readonly value: V;
  readonly bytes: number;
}

/** Values bounded in bytes, in all and for each owner. Beyond a bound the value that was not used for longest goes. */
export class ByteCache<V> {
  readonly #options: ByteCacheOptions;
  // In order of use: a Map keeps the order of insertion.
  readonly #entries = new Map<string, Entry<V>>();
  readonly #owners = new Map<string, { readonly keys: Set<string>; bytes: number }>();
  #bytes = 0;

  constructor(options: ByteCacheOptions) {
    this.#options = options;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const keys = this.#owners.get(entry.owner)?.keys;
    if (keys?.delete(key) === true) keys.add(key);
    return entry.value;
  }

  /** A value that is larger than an owner's share is not kept. */
  set(owner: string, key: string, value: V, bytes: number): void {
    this.delete(key);
    const { maxBytes, maxOwnerBytes } = this.#options;
    if (bytes > maxOwnerBytes) return;
    const own = this.#owners.get(owner) ?? { keys: new Set<string>(), bytes: 0 };
    this.#owners.set(owner, own);
    own.keys.add(key);
    own.bytes += bytes;
    this.#bytes += bytes;
    this.#entries.set(key, { owner, value, bytes });
    for (const oldest of own.keys) {
      if (own.bytes <= maxOwnerBytes) break;
      this.delete(oldest);
    }
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= maxBytes) break;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
    const own = this.#owners.get(entry.owner);
    if (own === undefined) return;
    own.keys.delete(key);
    own.bytes -= entry.bytes;
    if (own.keys.size === 0) this.#owners.delete(entry.owner);
  }
}
