/** Sorted strings with cheap insertion and removal. */
export class SortedKeys {
  #keys: string[] = [];

  get size(): number {
    return this.#keys.length;
  }

  /** Returns the index of the first key that does not sort before this one. */
  indexOf(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#keys[middle] ?? '') < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  add(key: string): void {
    const index = this.indexOf(key);
    if (this.#keys[index] !== key) this.#keys.splice(index, 0, key);
  }

  remove(key: string): void {
    const index = this.indexOf(key);
    if (this.#keys[index] === key) this.#keys.splice(index, 1);
  }

  /**
   * Yields the keys from the first that does not sort before `start`, as long as they have the
   * prefix.
   */
  *from(start: string, prefix: string): Generator<string> {
    for (let index = this.indexOf(start); index < this.#keys.length; index += 1) {
      const key = this.#keys[index];
      if (key === undefined || !key.startsWith(prefix)) return;
      yield key;
    }
  }
}
