/**
 * Tracks the answers that are still being written, so that a shutdown ends each of them properly.
 */
export class OpenStreams {
  readonly #ends = new Set<() => void>();
  #closed = false;

  get size(): number {
    return this.#ends.size;
  }

  /** `end` is called once, on shutdown; at once when that has begun. Returns the remover. */
  add(end: () => void): () => void {
    if (this.#closed) {
      end();
      return () => undefined;
    }
    this.#ends.add(end);
    return () => {
      this.#ends.delete(end);
    };
  }

  close(): void {
    this.#closed = true;
    for (const end of [...this.#ends]) end();
    this.#ends.clear();
  }
}
