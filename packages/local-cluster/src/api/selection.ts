import type { ApiResource } from '../registry/api-resource.ts';
import type { Change } from '../storage/change.ts';
import type { ApiObject } from './api-object.ts';
import { fieldMatcher, parseFieldSelector } from './field-selector.ts';
import { labelMatcher } from './label-selector.ts';

/** Which objects of a kind a list or a watch is about. */
export interface Selection {
  readonly namespace: string | undefined;
  /** Set where a field selector names one object: it need not be searched for. */
  readonly name: string | undefined;
  matches(object: ApiObject): boolean;
}

export function selectionOf(resource: ApiResource, namespace: string | undefined, query: URLSearchParams, pathName?: string): Selection {
  const labels = labelMatcher(query.get('labelSelector') ?? '');
  const requirements = parseFieldSelector(query.get('fieldSelector') ?? '');
  const fields = fieldMatcher(requirements, resource);
  const exact = (field: string) => requirements.find((entry) => entry.field === field && !entry.negated)?.value;
  const name = pathName ?? exact('metadata.name');
  return {
    namespace: namespace ?? (resource.namespaced ? exact('metadata.namespace') : undefined),
    name,
    matches: (object) =>
      (name === undefined || object.metadata.name === name) && labels?.(object.metadata.labels) !== false && fields?.(object) !== false,
  };
}

export interface SelectedEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** left: the object still exists, but not in the selection. */
  readonly state: 'after' | 'left';
}

/** What a change means to whoever watches the selection. */
export function eventIn(selection: Selection, change: Change): SelectedEvent | undefined {
  if (selection.namespace !== undefined && change.namespace !== selection.namespace) return undefined;
  const was = change.before !== undefined && selection.matches(change.before.object);
  if (change.deleted) return was ? { type: 'DELETED', state: 'after' } : undefined;
  const is = selection.matches(change.after.object);
  if (is) return { type: was ? 'MODIFIED' : 'ADDED', state: 'after' };
  return was ? { type: 'DELETED', state: 'left' } : undefined;
}
