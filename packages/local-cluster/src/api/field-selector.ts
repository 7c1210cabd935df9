import type { Json } from '../json/json.ts';
import { findAll, parseJsonPath, type JsonPath } from '../json/json-path.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import type { ApiObject } from './api-object.ts';
import { badRequest } from './status-error.ts';

export type ObjectMatcher = (object: ApiObject) => boolean;

const everyKind: ReadonlyMap<string, JsonPath> = new Map(
  ['metadata.name', 'metadata.namespace'].map((field) => [field, parseJsonPath(`.${field}`)]),
);

const textOf = (value: Json | undefined): string =>
  value === undefined || value === null || typeof value === 'object' ? '' : String(value);

export interface FieldRequirement {
  readonly field: string;
  readonly negated: boolean;
  readonly value: string;
}

/** Parses a selector such as `a=b,c!=d`. A backslash escapes a comma or an equals sign. */
export function parseFieldSelector(text: string): readonly FieldRequirement[] {
  const parts = text.match(/(?:\\.|[^,\\])+/g) ?? [];
  return parts.map((part) => {
    const [, field, operator, value = ''] = /^([^=!]+?)(==|=|!=)(.*)$/.exec(part.trim()) ?? [];
    if (field === undefined)
      throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`);
    return { field, negated: operator === '!=', value: value.replaceAll(/\\(.)/g, '$1') };
  });
}

/** @throws StatusError 400 for a field that is not selectable for the kind */
export function fieldMatcher(
  requirements: readonly FieldRequirement[],
  resource: ApiResource,
): ObjectMatcher | undefined {
  if (requirements.length === 0) return undefined;
  const tests = requirements.map(({ field, negated, value }) => {
    const path = everyKind.get(field) ?? resource.selectableFields.get(field);
    if (path === undefined) {
      throw badRequest(
        resource.builtin && resource.selectableFields.size === 0
          ? `${JSON.stringify(field)} is not a known field selector: only "metadata.name", "metadata.namespace"`
          : `field label not supported: ${field}`,
      );
    }
    return (object: ApiObject) => {
      const [found] = findAll(object, path);
      return (textOf(found) === value) !== negated;
    };
  });
  return (object) => tests.every((holds) => holds(object));
}
