import type { Clock } from '@conversation-operator/kube/clock';

interface Entry<V> {
  readonly value: V;
  readonly expires: number;
  readonly bytes: number;
}

/**
 * Keeps values for a limited time, and within limits: the least recently used value is removed
 * first.
 */
export class ExpiringCache<V> {
  readonly #clock: Clock;
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  // The entries are in the order of their use, because a Map keeps the order of insertion.
  readonly #entries = new Map<string, Entry<V>>();
  #bytes = 0;

  constructor({
    clock,
    maxEntries,
    maxBytes,
  }: {
    readonly clock: Clock;
    readonly maxEntries: number;
    readonly maxBytes: number;
  }) {
    this.#clock = clock;
    this.#maxEntries = maxEntries;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The sum of the sizes that the callers of `set` have given. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#delete(key, entry);
    if (entry.expires <= this.#clock.monotonic()) return undefined;
    this.#insert(key, entry);
    return entry.value;
  }

  /** @param bytes Approximate memory of the value. */
  set(key: string, value: V, forMs: number, bytes: number): void {
    const known = this.#entries.get(key);
    if (known !== undefined) this.#delete(key, known);
    this.#insert(key, { value, expires: this.#clock.monotonic() + forMs, bytes });
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= this.#maxEntries && this.#bytes <= this.#maxBytes) return;
      this.#delete(oldest, entry);
    }
  }

  #insert(key: string, entry: Entry<V>): void {
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
  }

  #delete(key: string, entry: Entry<V>): void {
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}
