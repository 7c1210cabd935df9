import { z } from 'zod';
import { markedBeginningOf, plainText } from '../../resources/plain-text.ts';
import { ProblemError, type FieldError } from './problem-error.ts';

/** A list in words, `a, b and c`. After 64 names, only the number of the others follows. */
function listed(names: readonly unknown[], word = 'and'): string {
  const shown = names.slice(0, maxListed).map(String);
  if (names.length > maxListed) shown.push(`${names.length - maxListed} more`);
  const last = shown.pop() ?? '';
  return shown.length === 0 ? last : `${shown.join(', ')} ${word} ${last}`;
}
const maxListed = 64;

const unknownName = (kind: 'field' | 'parameter', known: readonly string[]): string =>
  known.length === 0
    ? `is not a known ${kind}; there are none here`
    : `is not a known ${kind}; known here: ${listed(known)}`;

/** Descriptions of types for clients, by the validator's name of the type. */
const types: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a string',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
  null: 'null',
};
const typeOf = (expected: string): string => types[expected] ?? `of type ${expected}`;

/** Units of length, by the type of the value. */
const units: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ['character', 'characters'],
  array: ['element', 'elements'],
  record: ['field', 'fields'],
  object: ['field', 'fields'],
};

function bound(origin: string, comparison: string, limit: number | bigint): string {
  const unit = units[origin];
  if (unit === undefined) return `must be ${comparison} ${limit}`;
  return `must have ${comparison} ${limit} ${limit === 1 ? unit[0] : unit[1]}`;
}

/**
 * The message for each kind of validation error, with what is allowed. The validator's own texts
 * never reach a client; the message of a schema takes precedence.
 */
const fieldMessages: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${typeOf(issue.expected)}`;
    case 'invalid_value':
      return `must be ${listed(issue.values, 'or')}`;
    case 'too_big':
      return bound(
        issue.origin,
        issue.exact === true ? 'exactly' : issue.inclusive === false ? 'less than' : 'at most',
        issue.maximum,
      );
    case 'too_small':
      return bound(
        issue.origin,
        issue.exact === true ? 'exactly' : issue.inclusive === false ? 'more than' : 'at least',
        issue.minimum,
      );
    case 'invalid_format':
      return issue.format === 'regex'
        ? `must match the pattern ${issue.pattern ?? ''}`
        : `must have the format ${issue.format}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'unrecognized_keys':
      return unknownName(
        'field',
        issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape) : [],
      );
    case 'invalid_key':
      return `has a name that ${issue.issues[0]?.message ?? 'is not allowed'}`;
    case 'invalid_element':
      return `has a value that ${issue.issues[0]?.message ?? 'is not allowed'}`;
    case 'invalid_union':
      if (Array.isArray(issue['options'])) return `must be ${listed(issue['options'], 'or')}`;
      return unionMessage(issue.errors);
    default:
      return 'is not valid';
  }
};

/** The first error of each member of a union, joined with `or`. */
function unionMessage(errors: readonly (readonly z.core.$ZodIssue[])[]): string {
  const messages = new Set(
    errors.flatMap(([first]) => (first === undefined ? [] : [describedIn(first)])),
  );
  return messages.size === 0 ? 'has none of the allowed forms' : [...messages].join(', or ');
}
const describedIn = ({ path, message }: z.core.$ZodIssue): string =>
  path.length === 0 ? message : `${path.map(String).join('.')} ${message}`;

type Part = 'params' | 'query' | 'headers' | 'body';

/** Maximum characters of a field name in an error, because the client chooses the name. */
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

/** Errors for unknown query parameters: a client would assume that an ignored filter works. */
function unknownParameters(schema: z.ZodType | undefined, query: unknown): FieldError[] {
  const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  return Object.keys(isObject(query) ? query : {})
    .filter((name) => !known.includes(name))
    .map((name) => ({ path: pathOf('query', [name]), message: unknownName('parameter', known) }));
}

/** Rejects every body except an empty object, for an endpoint that reads no body. */
const noBody = z.strictObject({});

export interface Schemas<P, Q, B, H> {
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly headers?: z.ZodType<H>;
  readonly body?: z.ZodType<B>;
}

/**
 * Validates all parts of a request before it throws 422, so that a client learns of all errors at
 * once. Fields and parameters that the endpoint does not have are errors too.
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

/** The body of a request that a program in this process makes. Throws 422. */
export function validBody<B>(schema: z.ZodType<B>, body: unknown): B {
  const result = schema.safeParse(body, { error: fieldMessages });
  if (result.success) return result.data;
  throw invalidRequest(fieldErrorsOf('body', result.error.issues));
}

/** `detail` has the first error; `errors` has up to 100, then the number of the others. */
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

/** The problem of one field whose error no schema can detect. */
export const invalidField = (path: string, message: string): ProblemError =>
  invalidRequest([{ path, message }]);
