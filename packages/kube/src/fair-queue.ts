/** A first-in, first-out queue. `shift` takes constant time; `Array.shift` moves all elements. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined;
    const item = this.#items[this.#head];
    // The slot is cleared so that the garbage collector can free the item.
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.clear();
    } else if (this.#head >= 1024 && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }
}

export interface FairQueueOptions {
  /** Maximum items of a share from `shift` to `release` (see `FairQueue`); default unlimited. */
  readonly maxPerShare?: number;
}

interface Share<T> {
  readonly name: string;
  readonly items: Fifo<T>;
  taken: number;
  /** Whether the share is in `#ring`, because one of its items waits and may be taken. */
  ready: boolean;
}

/**
 * Queue of items in groups, called shares. `shift` serves the shares round robin, and the items of
 * a share in the order of arrival. Before a share is served, at most one item of each other share
 * is taken. Calls take constant time, and the queue keeps nothing about a share without items.
 */
export class FairQueue<T> {
  readonly #maxPerShare: number;
  readonly #shares = new Map<string, Share<T>>();
  /** Shares whose `ready` is true, in the order in which `shift` serves them. */
  readonly #ring = new Fifo<Share<T>>();
  #size = 0;

  constructor({ maxPerShare = Infinity }: FairQueueOptions = {}) {
    this.#maxPerShare = maxPerShare;
  }

  /** Number of waiting items, including items of shares at their limit. */
  get size(): number {
    return this.#size;
  }

  get shares(): number {
    return this.#shares.size;
  }

  push(name: string, item: T): void {
    const share = this.#shares.get(name) ?? { name, items: new Fifo<T>(), taken: 0, ready: false };
    this.#shares.set(name, share);
    share.items.push(item);
    this.#size++;
    this.#admit(share);
  }

  /** Takes the next item. The item counts against `maxPerShare` of its share until `release`. */
  shift(): T | undefined {
    const share = this.#ring.shift();
    if (share === undefined) return undefined;
    share.ready = false;
    const item = share.items.shift();
    this.#size--;
    share.taken++;
    this.#admit(share);
    return item;
  }

  release(name: string): void {
    const share = this.#shares.get(name);
    if (share === undefined) return;
    share.taken--;
    this.#admit(share);
    if (share.taken === 0 && share.items.size === 0) this.#shares.delete(name);
  }

  /** Drops the waiting items. Items that were taken still need their `release`. */
  clear(): void {
    this.#ring.clear();
    this.#size = 0;
    for (const share of this.#shares.values()) {
      share.items.clear();
      share.ready = false;
      if (share.taken === 0) this.#shares.delete(share.name);
    }
  }

  #admit(share: Share<T>): void {
    if (share.ready || share.items.size === 0 || share.taken >= this.#maxPerShare) return;
    share.ready = true;
    this.#ring.push(share);
  }
}
