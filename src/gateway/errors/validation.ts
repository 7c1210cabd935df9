import type { z } from 'zod';
import { ProblemError, type FieldError } from './problem-error.ts';

type Part = 'params' | 'query' | 'headers' | 'body';

const pathOf = (part: Part, path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, step) => (typeof step === 'number' ? `${text}[${step}]` : `${text}.${String(step)}`),
    part,
  );

const fieldErrorsOf = (part: Part, issues: readonly z.core.$ZodIssue[]): FieldError[] =>
  issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({
          path: pathOf(part, [...issue.path, key]),
          message: 'is not a known field',
        }))
      : [{ path: pathOf(part, issue.path), message: issue.message }],
  );

const messages: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === 'invalid_type')
    return issue.input === undefined ? 'is required' : `must be of type ${issue.expected}`;
  if (issue.code === 'invalid_value') return `must be ${issue.values.map(String).join(' or ')}`;
  if (issue.code === 'invalid_union' && Array.isArray(issue['options']))
    return `must be ${issue['options'].map(String).join(' or ')}`;
  return undefined;
};

type Result<T> =
  { readonly value: T; readonly errors?: undefined } | { readonly errors: readonly FieldError[] };

function check<T>(part: Part, schema: z.ZodType<T>, input: unknown): Result<T> {
  const result = schema.safeParse(input, { error: messages });
  return result.success
    ? { value: result.data }
    : { errors: fieldErrorsOf(part, result.error.issues) };
}

export interface Schemas<P, Q, B, H> {
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly headers?: z.ZodType<H>;
  readonly body?: z.ZodType<B>;
}

/** The parts of a request, checked together so that a client learns of all its mistakes at once. */
export function validate<P, Q, B, H>(
  schemas: Schemas<P, Q, B, H>,
  input: Readonly<Record<Part, unknown>>,
) {
  const results = {
    params: schemas.params && check('params', schemas.params, input.params),
    query: schemas.query && check('query', schemas.query, input.query),
    headers: schemas.headers && check('headers', schemas.headers, input.headers),
    body: schemas.body && check('body', schemas.body, input.body),
  };
  const errors = Object.values(results).flatMap((result) => result?.errors ?? []);
  if (errors.length > 0) throw invalidRequest(errors);
  const valueOf = <T>(result: Result<T> | undefined): T | undefined =>
    result?.errors === undefined ? result?.value : undefined;
  return {
    params: valueOf(results.params),
    query: valueOf(results.query),
    headers: valueOf(results.headers),
    body: valueOf(results.body),
  };
}

export function invalidRequest(errors: readonly FieldError[]): ProblemError {
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new ProblemError(
    'invalid-request',
    first === undefined ? 'The request is not valid.' : `${first.path} ${first.message}${more}.`,
    {
      errors,
    },
  );
}
