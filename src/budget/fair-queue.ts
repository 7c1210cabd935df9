/** Items of several owners, in turn: an owner's next item comes after the first of each other. */
export class FairQueue<T> {
  /** The first owner of the map is served first. */
  readonly #byOwner = new Map<string, Set<T>>();

  get isEmpty(): boolean {
    return this.#byOwner.size === 0;
  }

  /** @param isBefore Whether the item comes before another one of its owner. Absent: it is the last. */
  add(owner: string, item: T, isBefore?: (other: T) => boolean): void {
    const items = this.#byOwner.get(owner) ?? new Set();
    const later = isBefore === undefined ? [] : [...items].filter(isBefore);
    this.#byOwner.set(owner, items.add(item));
    // A Set has its items in the order in which they were added.
    for (const other of later) if (items.delete(other)) items.add(other);
  }

  /** Removes an item. `isServed`: its owner waits for all other owners now. */
  remove(owner: string, item: T, { isServed = false } = {}): void {
    const items = this.#byOwner.get(owner);
    if (items?.delete(item) !== true) return;
    if (isServed || items.size === 0) this.#byOwner.delete(owner);
    if (items.size > 0 && isServed) this.#byOwner.set(owner, items);
  }

  /**
   * The first item of each owner, in the order in which they are served. Items may be removed on
   * the way: an owner that was served comes again at the end.
   */
  *heads(): Generator<T> {
    for (const items of this.#byOwner.values())
      for (const first of items) {
        yield first;
        break;
      }
  }

  /** All items in the order in which they are served, if each is served. */
  inOrder(): readonly T[] {
    const items: T[] = [];
    let queues = [...this.#byOwner.values()].map((ofOwner) => ofOwner.values());
    while (queues.length > 0)
      queues = queues.filter((queue) => {
        const { done = false, value } = queue.next();
        if (!done) items.push(value as T);
        return !done;
      });
    return items;
  }
}
