import { z } from 'zod';
import { ProblemError } from '../../../../src/gateway/errors/problem-error.ts';
import { validate } from '../../../../src/gateway/errors/validation.ts';

const none = { params: {}, query: {}, headers: {}, body: {} };

const problemOf = (schemas: Parameters<typeof validate>[0], input: object): ProblemError => {
  try {
    validate(schemas, { ...none, ...input });
  } catch (error) {
    if (error instanceof ProblemError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
};
const detailOf = (field: z.ZodType, value: unknown): string =>
  problemOf({ body: z.strictObject({ field }) }, { body: { field: value } }).message;

describe('what a client learns of a field', () => {
  it.each<[string, z.ZodType, unknown, string]>([
    ['is absent', z.string(), undefined, 'is required'],
    ['is of another type', z.string(), 1, 'must be a string'],
    ['is no whole number', z.int(), 1.5, 'must be a whole number'],
    ['is no object', z.strictObject({}), 'x', 'must be an object'],
    ['is a map of another type', z.record(z.string(), z.string()), 'x', 'must be an object'],
    ['is no boolean', z.boolean(), 'yes', 'must be true or false'],
    ['is of a type that JSON lacks', z.bigint(), 1, 'must be of type bigint'],
    ['is none of some values', z.enum(['a', 'b', 'c']), 'd', 'must be a, b or c'],
    ['is not the one value', z.literal('a'), 'd', 'must be a'],
    ['is too long', z.string().max(1), 'ab', 'must have at most 1 character'],
    ['is too short', z.string().min(2), 'a', 'must have at least 2 characters'],
    ['has another length', z.string().length(2), 'a', 'must have exactly 2 characters'],
    ['is too large', z.number().max(2), 3, 'must be at most 2'],
    ['is as large as it must not be', z.number().lt(2), 2, 'must be less than 2'],
    ['is as small as it must not be', z.number().gt(2), 2, 'must be more than 2'],
    ['is too small', z.number().min(2), 1, 'must be at least 2'],
    ['has too many elements', z.array(z.int()).max(1), [1, 2], 'must have at most 1 element'],
    ['does not match', z.string().regex(/^[a-z]+$/), '1', 'must match the pattern /^[a-z]+$/'],
    ['has another format', z.email(), 'x', 'must have the format email'],
    ['is not a multiple', z.number().multipleOf(2), 3, 'must be a multiple of 2'],
    ['has no known kind', kinds(), { type: 'c' }, 'must be a or b'],
    [
      'has none of the forms',
      z.union([z.string(), z.strictObject({ a: z.int() })]),
      { a: 'x' },
      'must be a string, or a must be a number',
    ],
    [
      'has a name that is not allowed',
      z.record(z.string().max(1), z.string()),
      { ab: 'x' },
      'has a name that must have at most 1 character',
    ],
    ['fails a check without words', z.string().refine(() => false), 'x', 'is not valid'],
    ['has words of its own', z.string('must be a name'), 1, 'must be a name'],
  ])('that %s', (_case, field, value, message) => {
    expect(detailOf(field, value)).toMatch(/^body\.field[^ ]* /);
    expect(detailOf(field, value).replace(/^\S+ /, '')).toBe(`${message}.`);
  });

  it('is where it is, with square brackets', () => {
    const body = z.strictObject({ content: z.array(z.strictObject({ text: z.string() })) });
    expect(problemOf({ body }, { body: { content: [{ text: 1 }] } }).message).toBe(
      'body.content[0].text must be a string.',
    );
  });
});

describe('a name that nothing reads', () => {
  const body = z.strictObject({ title: z.string(), tags: z.strictObject({ a: z.string() }) });
  const good = { title: 'x', tags: { a: 'x' } };

  it.each<[string, object, string]>([
    [
      'in a body',
      { ...good, titel: 'x' },
      'body.titel is not a known field; known here: title and tags.',
    ],
    [
      'deeper in a body',
      { ...good, tags: { a: 'x', b: 'x' } },
      'body.tags.b is not a known field; known here: a.',
    ],
    [
      'with characters that a terminal obeys, and without end',
      { ...good, [`\u001b[31m${'x'.repeat(5000)}`]: 1 },
      `body.[31m${'x'.repeat(123)}… is not a known field; known here: title and tags.`,
    ],
  ])('is refused %s', (_case, value, detail) => {
    expect(problemOf({ body }, { body: value })).toMatchObject({
      status: 422,
      code: 'invalid-request',
      message: detail,
    });
  });

  it('is refused in a body where none is read', () => {
    expect(problemOf({}, { body: { sandbox_spec_id: 'x' } }).message).toBe(
      'body.sandbox_spec_id is not a known field; there are none here.',
    );
    expect(problemOf({}, { body: ['x'] }).message).toBe('body must be an object.');
  });

  it('is refused in a query, also where none is read', () => {
    const query = z.object({ limit: z.string().optional() });
    expect(problemOf({ query }, { query: { limits: '1' } }).message).toBe(
      'query.limits is not a known parameter; known here: limit.',
    );
    expect(problemOf({}, { query: { limits: '1' } }).message).toBe(
      'query.limits is not a known parameter; there are none here.',
    );
  });

  it('does not make the answer larger than the request: a hundred are listed, and the rest counted', () => {
    const many = Object.fromEntries(Array.from({ length: 150_000 }, (_, index) => [index, 0]));
    const { errors = [], message } = problemOf({ body }, { body: { ...good, ...many } });
    expect(message).toContain('(and 149999 more)');
    expect(errors).toHaveLength(101);
    expect(errors.at(-1)).toEqual({ path: '…', message: '149900 more errors are not shown' });
  });
});

function kinds() {
  return z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('a') }),
    z.strictObject({ type: z.literal('b') }),
  ]);
}
