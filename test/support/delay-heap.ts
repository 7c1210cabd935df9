interface Entry<K> {
  readonly key: K;
  at: number;
  /** Order of addition, which breaks ties: first come, first served. */
  order: number;
}

/** Keys by due time. `add` and `takeDue` take O(log n); the heap keeps nothing of removed keys. */
export class DelayHeap<K> {
  #heap: Entry<K>[] = [];
  readonly #positions = new Map<K, number>();
  #orders = 0;

  get first(): K | undefined {
    return this.#heap[0]?.key;
  }

  get nextAt(): number | undefined {
    return this.#heap[0]?.at;
  }

  /** Adds a key. A key that the heap already holds keeps the earlier of both times. */
  add(key: K, at: number): void {
    const position = this.#positions.get(key);
    if (position === undefined) {
      this.#heap.push({ key, at, order: this.#orders++ });
      this.#up(this.#heap.length - 1);
      return;
    }
    const entry = this.#heap[position];
    if (entry === undefined || entry.at <= at) return;
    entry.at = at;
    entry.order = this.#orders++;
    this.#up(position);
  }

  /** Removes and returns the first key if this key is due. */
  takeDue(now: number): K | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.at > now) return undefined;
    this.#positions.delete(first.key);
    const last = this.#heap.pop();
    if (last !== undefined && last !== first) {
      this.#heap[0] = last;
      this.#down(0);
    }
    // A new array releases the memory that a shrunken array would keep.
    if (this.#heap.length === 0) this.clear();
    return first.key;
  }

  clear(): void {
    this.#heap = [];
    this.#positions.clear();
  }

  #up(start: number): void {
    const heap = this.#heap;
    const entry = heap[start];
    if (entry === undefined) return;
    let position = start;
    while (position > 0) {
      const above = (position - 1) >> 1;
      const parent = heap[above];
      if (parent === undefined || !before(entry, parent)) break;
      this.#place(parent, position);
      position = above;
    }
    this.#place(entry, position);
  }

  #down(start: number): void {
    const heap = this.#heap;
    const entry = heap[start];
    if (entry === undefined) return;
    let position = start;
    for (;;) {
      const left = 2 * position + 1;
      const leftEntry = heap[left];
      if (leftEntry === undefined) break;
      const rightEntry = heap[left + 1];
      const rightFirst = rightEntry !== undefined && before(rightEntry, leftEntry);
      const child = rightFirst ? rightEntry : leftEntry;
      if (!before(child, entry)) break;
      this.#place(child, position);
      position = rightFirst ? left + 1 : left;
    }
    this.#place(entry, position);
  }

  #place(entry: Entry<K>, position: number): void {
    this.#heap[position] = entry;
    this.#positions.set(entry.key, position);
  }
}

const before = <K>(one: Entry<K>, other: Entry<K>): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);
