import { z } from 'zod';
import { markedBeginningOf, plainText } from '../../resources/plain-text.ts';
import { fieldMessages, unknownName } from './field-messages.ts';
import { ProblemError, type FieldError } from './problem-error.ts';

type Part = 'params' | 'query' | 'headers' | 'body';

/** Maximum characters of a name in the path of a field: the client has chosen the name. */
const maxNameLength = 128;
/** Maximum errors in one response: a body may have a hundred thousand unknown fields. */
const maxErrors = 100;

const shownName = (name: string): string =>
  markedBeginningOf(plainText(name, 2 * maxNameLength), maxNameLength);

const pathOf = (part: Part, path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : `${text}.${shownName(String(step))}`,
    part,
  );

const fieldErrorsOf = (part: Part, issues: readonly z.core.$ZodIssue[]): FieldError[] =>
  issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({
          path: pathOf(part, [...issue.path, key]),
          message: issue.message,
        }))
      : [{ path: pathOf(part, issue.path), message: issue.message }],
  );

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Refuses parameters that the query does not have: a client would take one that nothing reads for
 * a filter.
 */
function unknownParameters(schema: z.ZodType | undefined, query: unknown): FieldError[] {
  const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  return Object.keys(isObject(query) ? query : {})
    .filter((name) => !known.includes(name))
    .map((name) => ({ path: pathOf('query', [name]), message: unknownName('parameter', known) }));
}

/** Refuses the content of a body where the endpoint reads none; an empty object says nothing. */
const noBody = z.strictObject({});

export interface Schemas<P, Q, B, H> {
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly headers?: z.ZodType<H>;
  readonly body?: z.ZodType<B>;
}

/**
 * The parts of a request, checked together so that a client learns of all its mistakes at once.
 * Throws 422 for them, and for fields and parameters that the endpoint does not have.
 */
export function validate<P, Q, B, H>(
  schemas: Schemas<P, Q, B, H>,
  input: Readonly<Record<Part, unknown>>,
) {
  const errors: FieldError[] = [];
  const valueOf = <T>(part: Part, schema: z.ZodType<T> | undefined): T | undefined => {
    const result = schema?.safeParse(input[part], { error: fieldMessages });
    for (const error of fieldErrorsOf(part, result?.error?.issues ?? [])) errors.push(error);
    return result?.data;
  };
  const values = {
    params: valueOf('params', schemas.params),
    query: valueOf('query', schemas.query),
    headers: valueOf('headers', schemas.headers),
    body: valueOf('body', schemas.body),
  };
  for (const error of unknownParameters(schemas.query, input.query)) errors.push(error);
  if (schemas.body === undefined) valueOf('body', noBody);
  if (errors.length > 0) throw invalidRequest(errors);
  return values;
}

/** The first mistake is the detail; the list has up to 100 of them, and says how many more. */
export function invalidRequest(all: readonly FieldError[]): ProblemError {
  const [first] = all;
  const more = all.length > 1 ? ` (and ${all.length - 1} more)` : '';
  const errors =
    all.length <= maxErrors
      ? all
      : [
          ...all.slice(0, maxErrors),
          { path: '…', message: `${all.length - maxErrors} more errors are not shown` },
        ];
  return new ProblemError(
    'invalid-request',
    first === undefined ? 'The request is not valid.' : `${first.path} ${first.message}${more}.`,
    { errors },
  );
}

/** The problem of one field that no schema could refuse. */
export const invalidField = (path: string, message: string): ProblemError =>
  invalidRequest([{ path, message }]);
