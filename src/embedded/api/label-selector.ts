import { badRequest } from './status-error.ts';

type Labels = Readonly<Record<string, string>> | undefined;
export type LabelMatcher = (labels: Labels) => boolean;

const setBased = /^([^\s!=,()<>]+)\s+(in|notin)\s*\(([^)]*)\)$/;
const equality = /^([^\s!=,()<>]+)\s*(==|=|!=)\s*([^\s!=,()<>]*)$/;
const comparison = /^([^\s!=,()<>]+)\s*([<>])\s*(-?\d+)$/;
const existence = /^(!?)\s*([^\s!=,()<>]+)$/;

/** `a=b,c in (d,e),!f` as its parts: commas inside parentheses don't separate. */
const partsOf = (text: string): readonly string[] => text.match(/(?:\([^)]*\)|[^,(])+/g)?.map((part) => part.trim()) ?? [];

function requirement(text: string): LabelMatcher {
  const [, setKey, setOperator, list = ''] = setBased.exec(text) ?? [];
  if (setKey !== undefined) {
    const values = new Set(list.split(',').map((value) => value.trim()));
    return setOperator === 'in'
      ? (labels) => labels?.[setKey] !== undefined && values.has(labels[setKey])
      : (labels) => labels?.[setKey] === undefined || !values.has(labels[setKey]);
  }
  const [, key, operator, value = ''] = equality.exec(text) ?? [];
  if (key !== undefined) return operator === '!=' ? (labels) => labels?.[key] !== value : (labels) => labels?.[key] === value;
  const [, ordered, sign, bound] = comparison.exec(text) ?? [];
  if (ordered !== undefined) {
    const holds = (label: number) => (sign === '>' ? label > Number(bound) : label < Number(bound));
    return (labels) => labels?.[ordered] !== undefined && holds(Number(labels[ordered]));
  }
  const [, not, present] = existence.exec(text) ?? [];
  if (present === undefined) throw badRequest(`unable to parse requirement: found ${JSON.stringify(text)}`);
  return not === '!' ? (labels) => labels?.[present] === undefined : (labels) => labels?.[present] !== undefined;
}

/** @throws StatusError 400 for a selector that can't be read. */
export function labelMatcher(text: string): LabelMatcher | undefined {
  if (text.trim() === '') return undefined;
  const requirements = partsOf(text).map(requirement);
  return (labels) => requirements.every((holds) => holds(labels));
}
