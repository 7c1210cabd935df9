import { LRUCache } from 'lru-cache';

export interface ByteCacheOptions {
  /** Maximum bytes of all values. */
  readonly maxBytes: number;
  /**
   * Maximum bytes of one owner: less than the total, so that one owner's values never take the
   * place of everybody else's.
   */
  readonly maxOwnerBytes: number;
}

interface Entry<V> {
  readonly owner: string;
  readonly value: V;
}

/**
 * Caches values within a total limit of bytes and one for each owner. Beyond a limit, the least
 * recently used value is removed.
 */
export class ByteCache<V> {
  readonly #maxOwnerBytes: number;
  readonly #all: LRUCache<string, Entry<V>>;
  /** The keys of each owner. A key is in both caches or in none. */
  readonly #owners = new Map<string, LRUCache<string, true>>();

  constructor({ maxBytes, maxOwnerBytes }: ByteCacheOptions) {
    this.#maxOwnerBytes = maxOwnerBytes;
    this.#all = new LRUCache({
      maxSize: maxBytes,
      disposeAfter: ({ owner }, key) => {
        const own = this.#owners.get(owner);
        own?.delete(key);
        if (own?.size === 0) this.#owners.delete(owner);
      },
    });
  }

  get bytes(): number {
    return this.#all.calculatedSize;
  }

  get size(): number {
    return this.#all.size;
  }

  get(key: string): V | undefined {
    const entry = this.#all.get(key);
    if (entry !== undefined) this.#owners.get(entry.owner)?.get(key);
    return entry?.value;
  }

  /** Keeps a value, unless it is larger than the share of an owner. */
  set(owner: string, key: string, value: V, bytes: number): void {
    this.delete(key);
    if (bytes > this.#maxOwnerBytes) return;
    const own = this.#owners.get(owner) ?? this.#newOwner();
    this.#owners.set(owner, own);
    own.set(key, true, { size: bytes });
    this.#all.set(key, { owner, value }, { size: bytes });
  }

  delete(key: string): void {
    this.#all.delete(key);
  }

  #newOwner(): LRUCache<string, true> {
    return new LRUCache({
      maxSize: this.#maxOwnerBytes,
      disposeAfter: (_present, key) => this.#all.delete(key),
    });
  }
}
