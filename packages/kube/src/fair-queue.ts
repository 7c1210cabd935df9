import { Fifo } from './fifo.ts';

export interface FairQueueOptions {
  /** Maximum items of one share that may be taken and not released; without limit by default. */
  readonly maxPerShare?: number;
}

interface Share<T> {
  readonly name: string;
  readonly items: Fifo<T>;
  taken: number;
  /** It has a place in the ring: something of it waits, and may be taken. */
  ready: boolean;
}

/**
 * A queue that hands out round robin by share, within a share first come first served. A share that has something to hand out gets its
 * turn before any other share gets a second one, so one share's work delays another's by one item of each share at most. Every call
 * takes constant time, and nothing is kept of a share that holds nothing and waits for nothing.
 */
export class FairQueue<T> {
  readonly #maxPerShare: number;
  readonly #shares = new Map<string, Share<T>>();
  /** The shares whose turn comes, in the order of their turns. */
  readonly #ring = new Fifo<Share<T>>();
  #size = 0;

  constructor({ maxPerShare = Infinity }: FairQueueOptions = {}) {
    this.#maxPerShare = maxPerShare;
  }

  /** Items that wait, also those whose share has no room. */
  get size(): number {
    return this.#size;
  }

  /** How many shares are known. */
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

  /** The next item; undefined where none waits, or none may be taken. It counts against its share until `release`. */
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

  /** An item of this share that was taken is done with. */
  release(name: string): void {
    const share = this.#shares.get(name);
    if (share === undefined) return;
    share.taken--;
    this.#admit(share);
    if (share.taken === 0 && share.items.size === 0) this.#shares.delete(name);
  }

  /** Drops what waits. What has been taken still has to be released. */
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
