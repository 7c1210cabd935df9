interface Entry<K> {
  readonly key: K;
  at: number;
  /** Breaks ties: first come, first served. */
  order: number;
}

/** Keys with a time each, the earliest first. Adding and taking cost O(log n), and nothing is kept of keys that are gone. */
export class DelayHeap<K> {
  #heap: Entry<K>[] = [];
  readonly #positions = new Map<K, number>();
  #orders = 0;

  get size(): number {
    return this.#heap.length;
  }

  get first(): K | undefined {
    return this.#heap[0]?.key;
  }

  /** When the first key is due. */
  get nextAt(): number | undefined {
    return this.#heap[0]?.at;
  }

  /** A key that is in already keeps the earlier of both times. */
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

  /** Takes the first key if it is due. */
  takeDue(now: number): K | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.at > now) return undefined;
    this.#positions.delete(first.key);
    const last = this.#heap.pop();
    if (last !== undefined && last !== first) {
      this.#heap[0] = last;
      this.#down(0);
    }
    // An array that shrinks keeps much of the room it once had.
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

const before = <K>(one: Entry<K>, other: Entry<K>): boolean => one.at < other.at || (one.at === other.at && one.order < other.order);
