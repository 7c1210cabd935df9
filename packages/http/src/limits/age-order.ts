/**
 * Different items in the order in which they were added. Each operation takes constant time on
 * average; the first element of a `Set` whose beginning was deleted would take linear time.
 */
export class AgeOrder<Item> {
  readonly #numbers = new Map<Item, number>();
  readonly #items = new Map<number, Item>();
  /** No item has a smaller number. */
  #first = 0;
  #next = 0;

  get size(): number {
    return this.#numbers.size;
  }

  /** Adds an item that is not there. */
  add(item: Item): void {
    this.#numbers.set(item, this.#next);
    this.#items.set(this.#next, item);
    this.#next += 1;
  }

  /** Returns whether the item was there. */
  delete(item: Item): boolean {
    const number = this.#numbers.get(item);
    if (number === undefined) return false;
    this.#numbers.delete(item);
    return this.#items.delete(number);
  }

  /** The item that was added first; undefined when there is none. */
  oldest(): Item | undefined {
    // Each number is passed once.
    while (this.#first < this.#next && !this.#items.has(this.#first)) this.#first += 1;
    return this.#items.get(this.#first);
  }
}
