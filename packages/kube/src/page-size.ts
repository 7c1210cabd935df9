/** Target bytes of a page. A process with 512 MiB of memory can hold a few such pages. */
const targetPageBytes = 8_388_608;
const initialLimit = 100;
export const maxLimit = 500;
/** Maximum factor by which the limit grows after a page, as the next objects may be larger. */
const maxGrowthFactor = 5;
const shrinkFactor = 4;

/** `limit` for lists of a kind, computed from the sizes of earlier pages. */
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

  /** Lowers the limit after a page that was too large or late. Returns false if the limit is 1. */
  shrink(): boolean {
    if (this.#limit === 1) return false;
    this.#limit = Math.max(1, Math.floor(this.#limit / shrinkFactor));
    return true;
  }
}
