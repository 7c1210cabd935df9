import type { KubeObject } from '@conversation-operator/kube/object';
import { z } from 'zod';
import { invalidField } from '../errors/validation.ts';

const cursorSchema = z.tuple([z.string(), z.string(), z.string()]);

/** A cursor, opaque to clients. `order` names the search; every other search rejects the cursor. */
export const encodeCursor = (order: string, position: Position | undefined): string | null =>
  position === undefined
    ? null
    : Buffer.from(JSON.stringify([order, position.key, position.id])).toString('base64url');

/** Throws 422 for a text that `encodeCursor` has not created for this order. */
export function decodeCursor(order: string, cursor: string | undefined): Position | undefined {
  if (cursor === undefined) return undefined;
  const [madeFor, key, id] = parse(cursor) ?? [];
  if (madeFor !== order || key === undefined || id === undefined) {
    throw invalidField(
      'query.page_id',
      'must be the next_page_id of an earlier answer to the same search',
    );
  }
  return { key, id };
}

function parse(cursor: string): z.output<typeof cursorSchema> | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(cursor)) return undefined;
  try {
    return cursorSchema.safeParse(JSON.parse(Buffer.from(cursor, 'base64url').toString())).data;
  } catch {
    return undefined;
  }
}

interface Search<T> extends Omit<PageRequest<T>, 'after'> {
  /** Identifies the search and its order: a cursor of another search is rejected. */
  readonly order: string;
  readonly page_id?: string | undefined;
}

/** A page of a search, with the cursor of the next page. */
export function searchPage<T>(
  sorted: readonly Placed<T>[],
  { order, page_id, ...request }: Search<T>,
) {
  const { items, next } = pageOf(sorted, { ...request, after: decodeCursor(order, page_id) });
  return { items, next_page_id: encodeCursor(order, next) };
}

/** The position of an item in an order: by key, then by id. Both are compared as strings. */
export interface Position {
  readonly key: string;
  readonly id: string;
}

export interface Placed<T> {
  readonly item: T;
  readonly position: Position;
}

export interface PageRequest<T> {
  readonly descending: boolean;
  readonly limit: number;
  /** The last position of the previous page. The item at that position may have been deleted. */
  readonly after?: Position | undefined;
  /** Absent if every item matches. */
  readonly matches?: ((item: T) => boolean) | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** The position of the last item; undefined on the last page. */
  readonly next: Position | undefined;
}

const comparePositions = (left: Position, right: Position): number => {
  if (left.key !== right.key) return left.key < right.key ? -1 : 1;
  if (left.id !== right.id) return left.id < right.id ? -1 : 1;
  return 0;
};

/** The position of an object in the order of creation. */
export const creationOf = ({ metadata }: KubeObject): Position => ({
  key: metadata.creationTimestamp,
  id: metadata.name,
});

export const sortedBy = <T>(
  items: readonly T[],
  positionOf: (item: T) => Position,
): readonly Placed<T>[] =>
  items
    .map((item) => ({ item, position: positionOf(item) }))
    .sort((left, right) => comparePositions(left.position, right.position));

/** Number of items before a position; with `including`, the item at the position counts too. */
function countBefore<T>(
  sorted: readonly Placed<T>[],
  position: Position,
  { including }: { readonly including: boolean },
): number {
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

/** The matching items after a position. Changes on other pages do not shift the items. */
export function pageOf<T>(
  sorted: readonly Placed<T>[],
  { descending, limit, after, matches = () => true }: PageRequest<T>,
): Page<T> {
  const step = descending ? -1 : 1;
  const beginning = descending ? sorted.length : 0;
  const first =
    (after === undefined ? beginning : countBefore(sorted, after, { including: !descending })) -
    (descending ? 1 : 0);
  const found: Placed<T>[] = [];
  for (let index = first; found.length <= limit; index += step) {
    const placed = sorted[index];
    if (placed === undefined) break;
    if (matches(placed.item)) found.push(placed);
  }
  const page = found.slice(0, limit);
  return {
    items: page.map(({ item }) => item),
    next: found.length > limit ? page.at(-1)?.position : undefined,
  };
}
