import { z } from 'zod';
import { invalidField } from '../errors/validation.ts';
import { pageOf, type PageRequest, type Placed, type Position } from './keyset.ts';

const cursorSchema = z.tuple([z.string(), z.string(), z.string()]);

/**
 * Opaque to clients. `order` says what it is a position in: a cursor of one search is of no use in
 * another.
 */
export const encodeCursor = (order: string, position: Position | undefined): string | null =>
  position === undefined
    ? null
    : Buffer.from(JSON.stringify([order, position.key, position.id])).toString('base64url');

/** Throws 422 for what `encodeCursor` has not made for this order. */
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
  /** Names what is searched, and its order: a cursor of another search is refused. */
  readonly order: string;
  readonly page_id?: string | undefined;
}

/** A page of a search with the cursor that leads to the next one. */
export function searchPage<T>(
  sorted: readonly Placed<T>[],
  { order, page_id, ...request }: Search<T>,
) {
  const { items, next } = pageOf(sorted, { ...request, after: decodeCursor(order, page_id) });
  return { items, next_page_id: encodeCursor(order, next) };
}
