import { z } from 'zod';
import { parseUuid } from '@conversation-operator/base/uuid';
import { plainText } from '../../resources/plain-text.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { maxSecretBytes, secretName } from '../../resources/owner-settings.ts';
import { branchNamePattern, maxBranchNameLength } from '@conversation-operator/git/ref-list';

/**
 * A repository as owner/name, or with a path of groups. Segments that are only dots, and segments
 * with a leading dash, are rejected, because git would interpret them in another way.
 */
export const repository = () =>
  z
    .string()
    .max(255)
    .regex(
      /^(?!\.{1,2}\/)[A-Za-z0-9_.][A-Za-z0-9_.-]*(\/(?!\.{1,2}(\/|$))[A-Za-z0-9_.][A-Za-z0-9_.-]*)+$/,
      'must be in owner/name form',
    );

export const branch = () =>
  z
    .string()
    .min(1)
    .max(maxBranchNameLength)
    .regex(branchNamePattern, 'must be the name of a branch');

/** A valid value of an environment variable. No error message contains the value. */
export const secretValue = () =>
  z
    .string()
    .min(1, 'must not be empty')
    .refine((text) => Buffer.byteLength(text) <= maxSecretBytes, {
      error: `must have at most ${maxSecretBytes} bytes`,
      abort: true,
    })
    .refine((text) => text.isWellFormed(), 'must not have halves of surrogate pairs')
    .refine((text) => !text.includes('\0'), 'must not have NUL characters');

export const secretNameField = () =>
  secretName().describe('Letters, digits and underscores, without a digit at its begin.');

/** An optional field of a body; null is the same as absent. */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema
    .nullish()
    .transform((value) => value ?? undefined)
    .optional();

/**
 * A field that published clients send and that the service ignores. The schema names the field, so
 * that the request is accepted; the value is always undefined.
 */
export const unused = (description: string) =>
  z
    .unknown()
    .transform((): undefined => undefined)
    .optional()
    .describe(`Accepted and not used: ${description}`);

/** A query parameter that published clients send and that the service ignores. */
export const unusedParameter = (description: string) =>
  z.string().optional().describe(`Accepted and not used: ${description}`);

/** A UUID with or without dashes, as 32 lower-case hex digits. */
export const uuid = () =>
  z
    .string()
    .meta({ format: 'uuid' })
    .transform((text, context) => {
      const id = parseUuid(text);
      if (id !== undefined) return id;
      context.addIssue({ code: 'custom', message: 'must be a UUID' });
      return z.NEVER;
    });

const wellFormed = (maxLength: number) =>
  z
    .string()
    // `abort` skips the further checks of a text that is too long.
    .max(maxLength, { abort: true })
    .refine((text) => text.isWellFormed(), 'must not have halves of surrogate pairs');

/**
 * A name that programs compare. Control characters, which terminals interpret, and characters that
 * change the direction of text are rejected. White space is allowed.
 */
export const label = (maxLength: number) =>
  wellFormed(maxLength).refine(
    (text) => plainText(text, maxLength) === text.toWellFormed(),
    'must not have control characters or characters that change the direction of text',
  );

/** Text for people. The characters that `label` rejects are removed. */
export const shownText = (maxLength: number) =>
  wellFormed(maxLength).transform((text) => plainText(text, maxLength));

/** The same as `shownText`, but trimmed. A text of white space alone is rejected. */
export const shownName = (maxLength: number) =>
  wellFormed(maxLength)
    .min(1, empty)
    .transform((text) => plainText(text, maxLength).trim())
    .pipe(z.string().min(1, empty));
const empty = 'must not be empty';

const maxIds = 100;

/** A parameter that may be repeated up to 100 times. */
export const repeated = <T extends z.ZodType<unknown, string>>(item: T) =>
  z
    .array(item, { error: (issue) => (issue.input === undefined ? 'is required' : undefined) })
    .min(1)
    .meta({ maxItems: maxIds });

export function refuseTooMany(ids: readonly string[]): void {
  if (ids.length > maxIds)
    throw new ProblemError(
      'too-many-ids',
      `At most ${maxIds} ids can be asked for at once; these were ${ids.length}.`,
    );
}

const digits = /^\d{1,9}$/;

const limit = z.preprocess(
  (value) => (typeof value === 'string' && digits.test(value) ? Number(value) : value),
  z
    .int('must be a whole number')
    .min(1, 'must be at least 1')
    .max(100, 'must be at most 100')
    .default(100),
);

export const paging = {
  limit,
  page_id: z.string().optional().describe('next_page_id of the answer before.'),
};

const dateTime =
  /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?<offset>Z|[+ -]\d\d:?\d\d)?)?$/i;

/** Milliseconds of an ISO 8601 time, UTC by default. In a query, a plus may have become a space. */
function parseTime(text: string): number {
  const match = dateTime.exec(text);
  if (match === null) return Number.NaN;
  const offset = match.groups?.['offset'] ?? '';
  const local = text.slice(0, text.length - offset.length).replace(' ', 'T');
  return Date.parse(
    local.length === 10 ? local : `${local}${offset === '' ? 'Z' : offset.replace(' ', '+')}`,
  );
}

/** An ISO 8601 time whose text is forwarded unchanged. */
export const timeText = () =>
  z
    .string()
    .meta({ format: 'date-time' })
    .refine((text) => Number.isFinite(parseTime(text)), 'must be an ISO 8601 time');

export const time = () => timeText().transform(parseTime);

export const conversationParams = z.object({ id: uuid() });
export const sandboxParams = z.object({ id: z.string() });
export const idsQuery = z.object({ ids: repeated(uuid()) });
export const idQuery = z.object({ id: repeated(z.string().min(1)) });
export const pageQuery = z.object(paging);
