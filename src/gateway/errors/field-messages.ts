import { z } from 'zod';

/** A list for people: `a, b and c`; a list of more than 64 names says how many are left out. */
export function listed(names: readonly unknown[], word = 'and'): string {
  const shown = names.slice(0, maxListed).map(String);
  if (names.length > maxListed) shown.push(`${names.length - maxListed} more`);
  const last = shown.pop() ?? '';
  return shown.length === 0 ? last : `${shown.join(', ')} ${word} ${last}`;
}
const maxListed = 64;

/** Message for a name that nothing reads, with the names that are known in its place. */
export const unknownName = (kind: 'field' | 'parameter', known: readonly string[]): string =>
  known.length === 0
    ? `is not a known ${kind}; there are none here`
    : `is not a known ${kind}; known here: ${listed(known)}`;

/** Names of the validator for types, in the words of JSON. */
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

/** Units of what has a length. */
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
 * Our own sentence for each kind of mistake, with what is allowed. The validator's own wording
 * never reaches a client; a message that a schema gives wins over these.
 */
export const fieldMessages: z.core.$ZodErrorMap = (issue) => {
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

/** The mistake of each form that a value may have. */
function unionMessage(errors: readonly (readonly z.core.$ZodIssue[])[]): string {
  const messages = new Set(
    errors.flatMap(([first]) => (first === undefined ? [] : [describedIn(first)])),
  );
  return messages.size === 0 ? 'has none of the allowed forms' : [...messages].join(', or ');
}
const describedIn = ({ path, message }: z.core.$ZodIssue): string =>
  path.length === 0 ? message : `${path.map(String).join('.')} ${message}`;
