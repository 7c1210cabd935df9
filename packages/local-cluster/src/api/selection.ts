import type { ApiResource } from '../registry/api-resource.ts';
import type { Change, Stored } from '../storage/changes.ts';
import type { ApiObject } from './api-object.ts';
import { type Json, numberAt, stringAt } from '../json/json.ts';
import { findAll, parseJsonPath, type JsonPath } from '../json/json-path.ts';
import type { ResourcePath } from './request.ts';
import { badRequest, expired, StatusError, tooLargeVersion } from './status-error.ts';
import { labelValueFault, qualifiedNameFault } from './metadata.ts';
import type { ListMeta } from './serializer.ts';
import { keyOf, type ObjectStore } from '../storage/object-store.ts';

type Labels = Readonly<Record<string, string>> | undefined;
type LabelMatcher = (labels: Labels) => boolean;

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

export interface Selection {
  readonly namespace: string | undefined;
  /** The only name that the path or the field selector permits, if any. */
  readonly name: string | undefined;
  matches(object: ApiObject): boolean;
}

export function selectionOf(
  resource: ApiResource,
  path: ResourcePath,
  query: URLSearchParams,
): Selection {
  const labels = labelMatcher(query.get('labelSelector') ?? '');
  const requirements = parseFieldSelector(query.get('fieldSelector') ?? '');
  const fields = fieldMatcher(requirements, resource);
  const exact = (field: string) =>
    requirements.find((entry) => entry.field === field && !entry.negated)?.value;
  const name = path.name ?? exact('metadata.name');
  return {
    namespace: path.namespace ?? (resource.namespaced ? exact('metadata.namespace') : undefined),
    name,
    matches: (object) =>
      (name === undefined || object.metadata.name === name) &&
      labels?.(object.metadata.labels) !== false &&
      fields?.(object) !== false,
  };
}

export interface SelectedEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** `left`: the object still exists, but the new state does not match the selection. */
  readonly state: 'after' | 'left';
}

export function eventIn(selection: Selection, change: Change): SelectedEvent | undefined {
  if (selection.namespace !== undefined && change.namespace !== selection.namespace)
    return undefined;
  const was = change.before !== undefined && selection.matches(change.before.object);
  if (change.deleted) return was ? { type: 'DELETED', state: 'after' } : undefined;
  const is = selection.matches(change.after.object);
  if (is) return { type: was ? 'MODIFIED' : 'ADDED', state: 'after' };
  return was ? { type: 'DELETED', state: 'left' } : undefined;
}

interface ContinueToken {
  readonly version: number;
  /** Key of the last object that the server has sent. */
  readonly after: string;
}

const encodeContinue = ({ version, after }: ContinueToken): string =>
  Buffer.from(JSON.stringify({ v: version, k: after })).toString('base64url');

/** @throws StatusError 400 for a text that is not a continue token of this server */
function decodeContinue(text: string): ContinueToken {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Json;
    const version = numberAt(token, 'v');
    const after = stringAt(token, 'k');
    if (version !== undefined && after !== undefined) return { version, after };
  } catch {
    // The StatusError below reports the failure.
  }
  throw badRequest(
    'invalid continue token: continue key is not valid: the token does not come from this server',
  );
}

export function parseVersion(text: string | null): number | undefined {
  if (text === null || text === '') return undefined;
  if (!/^\d+$/.test(text))
    throw badRequest(
      `Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`,
    );
  return Number(text);
}

interface ListRequest {
  readonly resource: ApiResource;
  readonly selection: Selection;
  readonly query: URLSearchParams;
}

interface Source {
  readonly version: number;
  readonly items: Iterable<Stored>;
}

/** Returns objects of the current state, or the rest of the list that `continue` names. */
function sourceOf(
  store: ObjectStore,
  { resource, selection: { namespace }, query }: ListRequest,
): Source {
  const token = query.get('continue');
  if (token !== null && token !== '') {
    const { version, after } = decodeContinue(token);
    const items = store.listAt(resource.key, version, namespace, after);
    if (items === undefined)
      throw expired(
        'The provided continue parameter is too old to display a consistent list result.',
      );
    return { version, items };
  }
  const version = parseVersion(query.get('resourceVersion')) ?? 0;
  if (version > store.revision) throw tooLargeVersion(version, store.revision);
  return { version: store.revision, items: store.list(resource.key, namespace) };
}

/** Returns one page of a list. All pages of a list show the state of the same version. */
export function listPage(
  store: ObjectStore,
  request: ListRequest,
): { readonly items: readonly Stored[]; readonly metadata: ListMeta } {
  const { selection, query } = request;
  const limit = Number(query.get('limit') ?? 0);
  if (!Number.isInteger(limit) || limit < 0)
    throw new StatusError(400, 'BadRequest', 'invalid limit');
  const { version, items } = sourceOf(store, request);
  const page: Stored[] = [];
  let remaining = 0;
  for (const stored of items) {
    if (!selection.matches(stored.object)) continue;
    if (limit === 0 || page.length < limit) page.push(stored);
    else remaining += 1;
  }
  const metadata = { resourceVersion: String(version) };
  const last = page.at(-1)?.object.metadata;
  if (remaining === 0 || last === undefined) return { items: page, metadata };
  const selective = query.get('labelSelector') !== null || query.get('fieldSelector') !== null;
  return {
    items: page,
    metadata: {
      ...metadata,
      continue: encodeContinue({ version, after: keyOf(last.namespace ?? '', last.name) }),
      // As in Kubernetes, a page of a selector omits `remainingItemCount`, which is unknown.
      ...(selective ? {} : { remainingItemCount: remaining }),
    },
  };
}
