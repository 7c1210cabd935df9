/** Where an item stands in an order: by key, then by id. Both are compared as strings. */
export interface Position {
  readonly key: string;
  readonly id: string;
}

export interface PageRequest<T> {
  readonly items: Iterable<T>;
  readonly positionOf: (item: T) => Position;
  readonly descending: boolean;
  readonly limit: number;
  /** The last position of the page before. It need not exist any more. */
  readonly after?: Position | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Undefined when nothing follows. */
  readonly next: Position | undefined;
}

export const comparePositions = (left: Position, right: Position): number => {
  if (left.key !== right.key) return left.key < right.key ? -1 : 1;
  if (left.id !== right.id) return left.id < right.id ? -1 : 1;
  return 0;
};

/**
 * The items that follow a position. One pass over all of them, keeping only as many as a page has: pages are cheap to get from an
 * unordered index, and what is inserted or deleted elsewhere moves nothing.
 */
export function pageOf<T>({ items, positionOf, descending, limit, after }: PageRequest<T>): Page<T> {
  const order = descending ? (left: Position, right: Position) => comparePositions(right, left) : comparePositions;
  const kept: { item: T; position: Position }[] = [];
  for (const item of items) {
    const position = positionOf(item);
    if (after !== undefined && order(position, after) <= 0) continue;
    const last = kept.at(-1);
    if (kept.length > limit && last !== undefined && order(position, last.position) >= 0) continue;
    let [low, high] = [0, kept.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = kept[middle];
      if (other !== undefined && order(other.position, position) <= 0) low = middle + 1;
      else high = middle;
    }
    kept.splice(low, 0, { item, position });
    if (kept.length > limit + 1) kept.pop();
  }
  const page = kept.slice(0, limit);
  return { items: page.map(({ item }) => item), next: kept.length > limit ? page.at(-1)?.position : undefined };
}
