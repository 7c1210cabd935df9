/** Target size of a page. A few pages in memory do not endanger a process of 512 MiB. */
const targetPageBytes = 8_388_608;
const initialLimit = 100;
export const maxLimit = 500;
/** Maximum growth from one page to the next, since later objects may be larger. */
const maxGrowthFactor = 5;
const shrinkFactor = 4;

/** Limit for the pages of a kind, learned from the sizes of earlier pages. */
export class PageSize {
  #limit: number;

  constructor(limit = initialLimit) {
    this.#limit = limit;
  }

  get limit(): number {
    return this.#limit;
  }

  record(objects: number, bytes: number): void {
    if (objects === 0 || bytes === 0) return;
    const fitting = Math.floor((targetPageBytes * objects) / bytes);
    this.#limit = Math.max(1, Math.min(fitting, this.#limit * maxGrowthFactor, maxLimit));
  }

  /** Lowers the limit after a page too large or slow. Returns false when the limit is 1 already. */
  shrink(): boolean {
    if (this.#limit === 1) return false;
    this.#limit = Math.max(1, Math.floor(this.#limit / shrinkFactor));
    return true;
  }
}
