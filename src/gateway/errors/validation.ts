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
  const errors: FieldError[] = [];
  const valueOf = <T>(part: Part, schema: z.ZodType<T> | undefined): T | undefined => {
    const result = schema?.safeParse(input[part], { error: messages });
    if (result?.error !== undefined) errors.push(...fieldErrorsOf(part, result.error.issues));
    return result?.data;
  };
  const values = {
    params: valueOf('params', schemas.params),
    query: valueOf('query', schemas.query),
    headers: valueOf('headers', schemas.headers),
    body: valueOf('body', schemas.body),
  };
  if (errors.length > 0) throw invalidRequest(errors);
  return values;
}

export function invalidRequest(errors: readonly FieldError[]): ProblemError {
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return new ProblemError(
    'invalid-request',
    first === undefined ? 'The request is not valid.' : `${first.path} ${first.message}${more}.`,
    { errors },
  );
}

/** The problem of one field that no schema could refuse. */
export const invalidField = (path: string, message: string): ProblemError =>
  invalidRequest([{ path, message }]);
