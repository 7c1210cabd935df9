/** Items of several owners, in turn: an owner's next item comes after the first of each other. */
export class FairQueue<T> {
  /** The first owner of the map is served first. */
  readonly #byOwner = new Map<string, Set<T>>();

  get isEmpty(): boolean {
    return this.#byOwner.size === 0;
  }

  add(owner: string, item: T): void {
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? new Set()).add(item));
  }

  /** Removes an item. `isServed`: its owner waits for all other owners now. */
  remove(owner: string, item: T, { isServed = false } = {}): void {
    const items = this.#byOwner.get(owner);
    if (items?.delete(item) !== true) return;
    if (isServed || items.size === 0) this.#byOwner.delete(owner);
    if (items.size > 0 && isServed) this.#byOwner.set(owner, items);
  }

  /** All items in the order in which they are served, if each is served. */
  inOrder(): readonly T[] {
    const queues = [...this.#byOwner.values()].map((items) => [...items]);
    const longest = Math.max(0, ...queues.map(({ length }) => length));
    return Array.from({ length: longest }, (_, turn) =>
      queues.flatMap((items) => items.slice(turn, turn + 1)),
    ).flat();
  }
}
