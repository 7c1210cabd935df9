/** What a page should have at most: a few of them in memory at once, as bytes, as text and parsed, do not endanger a process of 512 MiB. */
const targetBytes = 8_388_608;
const firstLimit = 100;
const maxLimit = 500;
/** How much larger than the last page the next one may be: objects behind it may be larger. */
const maxGrowth = 5;
const shrinkBy = 4;

/** How many objects of a kind are asked for at once, learned from the sizes of the pages that have come. */
export class PageSize {
  #limit = firstLimit;

  get limit(): number {
    return this.#limit;
  }

  /** A page of so many objects has come with so many bytes. */
  came(objects: number, bytes: number): void {
    if (objects === 0 || bytes === 0) return;
    const fitting = Math.floor((targetBytes * objects) / bytes);
    this.#limit = Math.max(1, Math.min(fitting, this.#limit * maxGrowth, maxLimit));
  }

  /** A page was too large, or took too long. Returns whether a smaller one can be asked for. */
  shrink(): boolean {
    if (this.#limit === 1) return false;
    this.#limit = Math.max(1, Math.floor(this.#limit / shrinkBy));
    return true;
  }
}
