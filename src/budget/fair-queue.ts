/** Items of several owners, in turn: an owner's next item comes after the first of each other. */
export class FairQueue<T> {
  /** The first owner of the map is served first. */
  readonly #byOwner = new Map<string, Set<T>>();

  get isEmpty(): boolean {
    return this.#byOwner.size === 0;
  }

  /** `isFirst`: the item comes before the other items of its owner. */
  add(owner: string, item: T, { isFirst = false } = {}): void {
    const items = this.#byOwner.get(owner) ?? new Set();
    this.#byOwner.set(owner, isFirst ? new Set([item, ...items]) : items.add(item));
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
