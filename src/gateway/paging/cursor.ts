import { z } from 'zod';
import { invalidRequest } from '../errors/validation.ts';
import type { Position } from './keyset.ts';

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
    throw invalidRequest([
      {
        path: 'query.page_id',
        message: 'must be the next_page_id of an earlier answer to the same search',
      },
    ]);
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
