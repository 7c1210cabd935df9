import { labelValueFault, qualifiedNameFault } from './metadata.ts';
import { badRequest } from './status-error.ts';

type Labels = Readonly<Record<string, string>> | undefined;
export type LabelMatcher = (labels: Labels) => boolean;

const valueOf = (labels: Labels, key: string): string | undefined =>
  labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined;

const setBased = /^([^\s!=,()<>]+)\s+(in|notin)\s*\(([^)]*)\)$/;
const equality = /^([^\s!=,()<>]+)\s*(==|=|!=)\s*([^\s!=,()<>]*)$/;
const existence = /^(!?)\s*([^\s!=,()<>]+)$/;

/** Splits `a=b,c in (d,e),!f` at the commas outside of parentheses. */
const partsOf = (text: string): readonly string[] =>
  text.match(/(?:\([^)]*\)|[^,(])+/g)?.map((part) => part.trim()) ?? [];

/** @throws StatusError 400 for an invalid label key or value */
function checked(key: string, values: Iterable<string | undefined>): void {
  const fault = qualifiedNameFault(key);
  if (fault !== undefined)
    throw badRequest(
      `unable to parse requirement: <nil>: Invalid value: ${JSON.stringify(key)}: ${fault}`,
    );
  for (const value of values) {
    const wrong = labelValueFault(value ?? '');
    if (wrong !== undefined)
      throw badRequest(
        `unable to parse requirement: values[0][${key}]: Invalid value: ${JSON.stringify(value)}: ${wrong}`,
      );
  }
}

function requirement(text: string): LabelMatcher {
  const [, setKey, setOperator, list = ''] = setBased.exec(text) ?? [];
  if (setKey !== undefined) {
    const values = new Set<string | undefined>(list.split(',').map((value) => value.trim()));
    checked(setKey, values);
    const wanted = setOperator === 'in';
    return (labels) => values.has(valueOf(labels, setKey)) === wanted;
  }
  const [, key, operator, value = ''] = equality.exec(text) ?? [];
  if (key !== undefined) {
    checked(key, [value]);
    return (labels) => (valueOf(labels, key) === value) === (operator !== '!=');
  }
  const [, not, present] = existence.exec(text) ?? [];
  if (present === undefined)
    throw badRequest(`unable to parse requirement: found ${JSON.stringify(text)}`);
  checked(present, []);
  return (labels) => (valueOf(labels, present) === undefined) === (not === '!');
}

/** @throws StatusError 400 for a selector that does not parse */
export function labelMatcher(text: string): LabelMatcher | undefined {
  if (text.trim() === '') return undefined;
  const requirements = partsOf(text).map(requirement);
  return (labels) => requirements.every((holds) => holds(labels));
}
