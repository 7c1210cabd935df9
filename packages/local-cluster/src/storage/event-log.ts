import type { Change } from './change.ts';

/**
 * Latest changes, for watches that start at an older version and for lists that continue at one.
 */
export class EventLog {
  readonly #capacity: number;
  #changes: Change[] = [];
  #first = 0;
  #compacted: number;

  /** Changes up to the version `compacted` are unknown. */
  constructor(capacity: number, compacted: number) {
    this.#capacity = capacity;
    this.#compacted = compacted;
  }

  /** Oldest version from which a watch can start. */
  get compacted(): number {
    return this.#compacted;
  }

  append(change: Change): void {
    this.#changes.push(change);
    if (this.#changes.length - this.#first > this.#capacity) this.#dropOldest();
  }

  #dropOldest(): void {
    const oldest = this.#changes[this.#first];
    if (oldest !== undefined) this.#compacted = oldest.version;
    this.#first += 1;
    // The array is compacted only when half of it is unused, because moving all elements for each
    // append would cost more than it frees.
    if (this.#first < this.#capacity) return;
    this.#changes = this.#changes.slice(this.#first);
    this.#first = 0;
  }

  compactTo(version: number): void {
    while (
      this.#first < this.#changes.length &&
      (this.#changes[this.#first]?.version ?? Infinity) <= version
    )
      this.#dropOldest();
    this.#compacted = Math.max(this.#compacted, version);
  }

  /**
   * Returns the changes of a resource after a version, oldest first; undefined when they were
   * compacted.
   */
  since(resource: string, version: number): readonly Change[] | undefined {
    if (version < this.#compacted) return undefined;
    const start = firstIndex(
      [this.#first, this.#changes.length],
      (index) => (this.#changes[index]?.version ?? 0) > version,
    );
    return this.#changes.slice(start).filter((change) => change.resource === resource);
  }
}

/** Returns the first index of a range that passes; all indexes after that one pass too. */
export function firstIndex(
  [start, end]: readonly [number, number],
  passes: (index: number) => boolean,
): number {
  let low = start;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (passes(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
