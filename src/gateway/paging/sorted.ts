import { comparePositions, type PageRequest, type Position } from './keyset.ts';

export interface Placed<T> {
  readonly item: T;
  readonly position: Position;
}

export const sortedBy = <T>(items: readonly T[], positionOf: (item: T) => Position): readonly Placed<T>[] =>
  items.map((item) => ({ item, position: positionOf(item) })).sort((left, right) => comparePositions(left.position, right.position));

/** How many stand before a position, and at it where that is asked for. */
function countBefore<T>(sorted: readonly Placed<T>[], position: Position, including: boolean): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const other = sorted[middle];
    const order = other === undefined ? 1 : comparePositions(other.position, position);
    if (order < 0 || (including && order === 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** As many of the sorted items as decide about a page: those that follow a position and match, up to one more than it has. */
export function following<T>(
  sorted: readonly Placed<T>[],
  { descending, limit, after, matches }: Omit<PageRequest<T>, 'items' | 'positionOf'> & { readonly matches: (item: T) => boolean },
): readonly Placed<T>[] {
  const step = descending ? -1 : 1;
  const beginning = descending ? sorted.length : 0;
  const first = (after === undefined ? beginning : countBefore(sorted, after, !descending)) - (descending ? 1 : 0);
  const found: Placed<T>[] = [];
  for (let index = first; found.length <= limit; index += step) {
    const placed = sorted[index];
    if (placed === undefined) break;
    if (matches(placed.item)) found.push(placed);
  }
  return found;
}
