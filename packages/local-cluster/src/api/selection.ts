import type { ApiResource } from '../registry/api-resource.ts';
import type { Change } from '../storage/change.ts';
import type { ApiObject } from './api-object.ts';
import { fieldMatcher, parseFieldSelector } from './field-selector.ts';
import { labelMatcher } from './label-selector.ts';

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
