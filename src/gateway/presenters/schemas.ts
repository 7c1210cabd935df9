import { z } from 'zod';
import type { ListFrame } from '@conversation-operator/http/body/send-chunks';

export const idSchema = z
  .string()
  .regex(/^[0-9a-f]{32}$/)
  .describe('A UUID as 32 lower-case hex digits.');

export const timestampSchema = z
  .string()
  .meta({ format: 'date-time', description: 'ISO 8601 in UTC with microseconds.' });

export const nullableText = z.string().nullable();

export const countSchema = z.int().min(0);

export const pageSchema = <T extends z.ZodType>(item: T) =>
  z.object({
    items: z.array(item),
    next_page_id: nullableText.describe(
      'What to send as page_id for what follows; null at the end.',
    ),
  });

/** The JSON text before and after the items of a page, in the form of `pageSchema`. */
export const pageFrame = (nextPageId: string | null): ListFrame => ({
  head: '{"items":[',
  tail: `],"next_page_id":${JSON.stringify(nextPageId)}}`,
});

/** ISO 8601 in UTC with microseconds, from milliseconds since 1970 or any RFC 3339 form. */
export const wireTime = (time: string | number): string =>
  new Date(time).toISOString().replace('Z', '000Z');
export const wireTimeOrNull = (time: string | undefined): string | null =>
  time === undefined ? null : wireTime(time);

/** The latest of some RFC 3339 times, in ISO form; undefined values are ignored. */
export const latest = (first: string, ...others: readonly (string | undefined)[]): string =>
  new Date(
    Math.max(
      ...[first, ...others].filter((time) => time !== undefined).map((time) => Date.parse(time)),
    ),
  ).toISOString();
