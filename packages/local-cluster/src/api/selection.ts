import type { ApiResource } from '../registry/api-resource.ts';
import type { Change } from '../storage/change.ts';
import type { ApiObject } from './api-object.ts';
import { labelMatcher } from './label-selector.ts';
import type { Json } from '../json/json.ts';
import { findAll, parseJsonPath, type JsonPath } from '../json/json-path.ts';
import { badRequest } from './status-error.ts';

type ObjectMatcher = (object: ApiObject) => boolean;

const everyKind: ReadonlyMap<string, JsonPath> = new Map(
  ['metadata.name', 'metadata.namespace'].map((field) => [field, parseJsonPath(`.${field}`)]),
);

const textOf = (value: Json | undefined): string =>
  value === undefined || value === null || typeof value === 'object' ? '' : String(value);

interface FieldRequirement {
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
function fieldMatcher(
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

/** Objects of a kind that a list or a watch covers. */
export interface Selection {
  readonly namespace: string | undefined;
  /** Name of the only object that a field selector permits, which makes a search unnecessary. */
  readonly name: string | undefined;
  matches(object: ApiObject): boolean;
}

export function selectionOf(
  resource: ApiResource,
  namespace: string | undefined,
  query: URLSearchParams,
  pathName?: string,
): Selection {
  const labels = labelMatcher(query.get('labelSelector') ?? '');
  const requirements = parseFieldSelector(query.get('fieldSelector') ?? '');
  const fields = fieldMatcher(requirements, resource);
  const exact = (field: string) =>
    requirements.find((entry) => entry.field === field && !entry.negated)?.value;
  const name = pathName ?? exact('metadata.name');
  return {
    namespace: namespace ?? (resource.namespaced ? exact('metadata.namespace') : undefined),
    name,
    matches: (object) =>
      (name === undefined || object.metadata.name === name) &&
      labels?.(object.metadata.labels) !== false &&
      fields?.(object) !== false,
  };
}

export interface SelectedEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** `left`: the object still exists but no longer matches the selection. */
  readonly state: 'after' | 'left';
}

/** Returns the event that a change causes for watchers of the selection. */
export function eventIn(selection: Selection, change: Change): SelectedEvent | undefined {
  if (selection.namespace !== undefined && change.namespace !== selection.namespace)
    return undefined;
  const was = change.before !== undefined && selection.matches(change.before.object);
  if (change.deleted) return was ? { type: 'DELETED', state: 'after' } : undefined;
  const is = selection.matches(change.after.object);
  if (is) return { type: was ? 'MODIFIED' : 'ADDED', state: 'after' };
  return was ? { type: 'DELETED', state: 'left' } : undefined;
}
