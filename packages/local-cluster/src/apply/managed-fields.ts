import { timestampOf } from '@conversation-operator/kube/object';
import { serverFields, type ApiObject } from '../api/api-object.ts';
import {
  arrayAt,
  equal,
  isObject,
  objectAt,
  stringAt,
  without,
  type JsonArray,
  type JsonObject,
  isArray,
  type Json,
} from '../json/json.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { partOf, type Schema } from '../schema/structural-schema.ts';

/** Identity of list items: by keys, by value, or none. */
type ListIdentity =
  | { readonly kind: 'map'; readonly keys: readonly string[] }
  | { readonly kind: 'set' }
  | { readonly kind: 'atomic' };

const atomic: ListIdentity = { kind: 'atomic' };

/**
 * Keys of the items of lists that are not atomic in the OpenAPI of Kubernetes, for the built-in
 * kinds and metadata. The keys depend only on the name of the field, except for `ports`.
 */
export const builtinListKeys: Readonly<Record<string, readonly string[]>> = {
  containers: ['name'],
  initContainers: ['name'],
  ephemeralContainers: ['name'],
  env: ['name'],
  volumes: ['name'],
  volumeMounts: ['mountPath'],
  volumeDevices: ['devicePath'],
  conditions: ['type'],
  ownerReferences: ['uid'],
  imagePullSecrets: ['name'],
  secrets: ['name'],
  hostAliases: ['ip'],
  podIPs: ['ip'],
  addresses: ['type'],
  topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
  resourceClaims: ['name'],
};

/** A position in an object: its schema, and whether a built-in type defines it. */
export interface Place {
  readonly schema: Schema | undefined;
  readonly builtin: boolean;
  readonly field: string;
}

export function childPlace(place: Place, key: string): Place {
  const root = place.field === '';
  const schema = partOf(place.schema, key);
  return { schema, builtin: place.builtin || (root && key === 'metadata'), field: key };
}

export const itemPlace = (place: Place): Place => ({ ...place, schema: place.schema?.items });

export function identityAt({ schema, builtin, field }: Place): ListIdentity {
  if (builtin) {
    if (field === 'finalizers') return { kind: 'set' };
    const isContainer = schema?.items?.properties?.['containerPort'] !== undefined;
    const keys =
      field === 'ports'
        ? [isContainer ? 'containerPort' : 'port', 'protocol']
        : builtinListKeys[field];
    return keys === undefined ? atomic : { kind: 'map', keys };
  }
  const type = schema?.['x-kubernetes-list-type'];
  if (type === 'set') return { kind: 'set' };
  return type === 'map'
    ? { kind: 'map', keys: schema?.['x-kubernetes-list-map-keys'] ?? [] }
    : atomic;
}

/** Returns whether a map is set as a whole, such as a selector. */
export const isAtomicMap = ({ schema }: Place): boolean =>
  schema?.['x-kubernetes-map-type'] === 'atomic';

/** Value of an absent key of an item: the default of its schema, or TCP as protocol of a port. */
const keyDefault = (place: Place, key: string) =>
  itemPlace(place).schema?.properties?.[key]?.default ??
  (place.builtin && key === 'protocol' ? 'TCP' : undefined);

/**
 * A set of fields in the form of `fieldsV1`. An element of a path is `f:name`, `k:{"key":"value"}`
 * (an item by its keys) or `v:value` (an item by its value); NUL joins the elements of a path.
 */
export type FieldSet = ReadonlySet<string>;

const joint = '\0';
export const elementsOf = (path: string): readonly string[] => path.split(joint);

export const itemElement = (item: Json, place: Place): string | undefined => {
  const identity = identityAt(place);
  if (identity.kind === 'set') return `v:${JSON.stringify(item)}`;
  if (identity.kind === 'atomic' || !isObject(item)) return undefined;
  return `k:${JSON.stringify(Object.fromEntries([...identity.keys].sort().map((key) => [key, item[key] ?? keyDefault(place, key)])))}`;
};

/** Returns every field that a value sets. */
export function fieldsOf(value: Json, place: Place): FieldSet {
  const found = new Set<string>();
  collect(value, place, [], found);
  return found;
}

function collect(value: Json, place: Place, path: readonly string[], found: Set<string>): void {
  const add = () => path.length > 0 && found.add(path.join(joint));
  if (isObject(value) && !isAtomicMap(place)) {
    const entries = Object.entries(value).filter(([, child]) => child !== undefined);
    if (entries.length === 0) add();
    for (const [key, child] of entries)
      collect(child ?? null, childPlace(place, key), [...path, `f:${key}`], found);
    return;
  }
  if (!isArray(value) || identityAt(place).kind === 'atomic' || value.length === 0) {
    add();
    return;
  }
  for (const item of value) {
    const at = [...path, itemElement(item, place) ?? ''];
    // The set includes the item itself, which is removed together with its last field.
    found.add(at.join(joint));
    if (isObject(item)) collect(item, { ...itemPlace(place) }, at, found);
  }
}

function toFieldsV1(fields: FieldSet): JsonObject {
  interface Node {
    [element: string]: Node;
  }
  const root: Node = {};
  const members = new Set(fields);
  for (const path of [...fields].sort()) {
    let node = root;
    for (const element of elementsOf(path)) node = node[element] ??= {};
    const inner = [...members].some((other) => other.startsWith(`${path}${joint}`));
    if (inner) node['.'] = {};
  }
  return root;
}

function fromFieldsV1(tree: Json | undefined): FieldSet {
  const found = new Set<string>();
  const walk = (node: Json | undefined, path: readonly string[]): void => {
    const keys = isObject(node) ? Object.keys(node) : [];
    if (path.length > 0 && (keys.length === 0 || keys.includes('.'))) found.add(path.join(joint));
    for (const key of keys) if (key !== '.' && isObject(node)) walk(node[key], [...path, key]);
  };
  walk(tree, []);
  return found;
}

function itemIndex(items: readonly Json[], element: string): number {
  const wanted = JSON.parse(element.slice(2)) as Json;
  if (element.startsWith('v:')) return items.findIndex((item) => equal(item, wanted));
  if (!isObject(wanted)) return -1;
  return items.findIndex(
    (item) =>
      isObject(item) &&
      Object.entries(wanted).every(
        ([key, value]) =>
          equal(item[key], value) || (item[key] === undefined && key === 'protocol'),
      ),
  );
}

export function valueAtPath(value: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((node, element) => {
    if (element.startsWith('f:')) return isObject(node) ? node[element.slice(2)] : undefined;
    return isArray(node) ? node[itemIndex(node, element)] : undefined;
  }, value);
}

/** Returns the value without the field or item at the path. */
export function removedAtPath(value: Json, path: readonly string[]): Json {
  const [element, ...rest] = path;
  if (element === undefined) return value;
  if (element.startsWith('f:')) {
    const key = element.slice(2);
    const child = isObject(value) ? value[key] : undefined;
    if (!isObject(value) || child === undefined) return value;
    if (rest.length > 0) return { ...value, [key]: removedAtPath(child, rest) };
    return Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
  }
  if (!isArray(value)) return value;
  const index = itemIndex(value, element);
  if (rest.length === 0) return value.filter((_, position) => position !== index);
  return value.map((item, position) => (position === index ? removedAtPath(item, rest) : item));
}

/** Formats a path as conflict messages do: `.spec.containers[name="a"].image`. */
export const shownPath = (path: string): string =>
  elementsOf(path)
    .map((element) => {
      if (element.startsWith('f:')) return `.${element.slice(2)}`;
      if (element.startsWith('v:')) return `[=${element.slice(2)}]`;
      const keys = JSON.parse(element.slice(2)) as JsonObject;
      return `[${Object.entries(keys)
        .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
        .join(',')}]`;
    })
    .join('');

export interface ManagerEntry {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly time: string;
  readonly subresource: string;
  readonly fields: FieldSet;
}

export interface Writer {
  readonly manager: string;
  readonly resource: ApiResource;
  readonly part: 'main' | 'status';
  readonly nowMs: number;
}

export const readManagers = (managedFields: JsonArray | undefined): readonly ManagerEntry[] =>
  (managedFields ?? [])
    .filter(isObject)
    .map((entry) => ({
      manager: stringAt(entry, 'manager') ?? '',
      operation: stringAt(entry, 'operation') === 'Apply' ? 'Apply' : 'Update',
      apiVersion: stringAt(entry, 'apiVersion') ?? '',
      time: stringAt(entry, 'time') ?? '',
      subresource: stringAt(entry, 'subresource') ?? '',
      fields: fromFieldsV1(entry['fieldsV1']),
    }));

export const writeManagers = (entries: readonly ManagerEntry[]): JsonArray =>
  entries
    .filter(({ fields }) => fields.size > 0)
    .map(({ manager, operation, apiVersion, time, subresource, fields }) => ({
      manager,
      operation,
      apiVersion,
      time,
      fieldsType: 'FieldsV1',
      fieldsV1: toFieldsV1(fields),
      ...(subresource === '' ? {} : { subresource }),
    }));

export const rootOf = (resource: ApiResource): Place => ({
  schema: resource.schema,
  builtin: resource.builtin,
  field: '',
});

/** Returns the part of an object that managers can own. */
export function ownable(
  object: JsonObject,
  { part, resource: { hasStatus } }: Pick<Writer, 'part' | 'resource'>,
): JsonObject {
  if (part === 'status') return object['status'] === undefined ? {} : { status: object['status'] };
  const metadata = without(objectAt(object, 'metadata') ?? {}, ...serverFields, 'selfLink');
  const rest = without(object, 'apiVersion', 'kind', 'metadata', ...(hasStatus ? ['status'] : []));
  return Object.keys(metadata).length === 0 ? rest : { ...rest, metadata };
}

const isManager = (
  entry: ManagerEntry,
  writer: Writer,
  operation: ManagerEntry['operation'],
): boolean =>
  entry.manager === writer.manager &&
  entry.operation === operation &&
  entry.subresource === (writer.part === 'status' ? 'status' : '');

/**
 * Returns the managers after an update other than apply: the writer owns the changed fields. The
 * server tracks managers from the first server-side apply of an object on, because nothing reads
 * them earlier.
 */
export function managersAfterUpdate(
  old: ApiObject,
  sent: JsonObject,
  writer: Writer,
): JsonArray | undefined {
  const present = old.metadata.managedFields;
  if (present === undefined) return undefined;
  const [first, ...more] = arrayAt(objectAt(sent, 'metadata'), 'managedFields');
  // Kubernetes defines a list with one empty entry as the request to clear managedFields.
  if (isObject(first) && more.length === 0 && Object.keys(first).length === 0) return [];
  const { resource, part } = writer;
  const before = ownable(old, writer);
  const after = ownable(sent, writer);
  if (equal(before, after)) return present;
  const changed = (path: string): boolean =>
    !equal(valueAtPath(before, elementsOf(path)), valueAtPath(after, elementsOf(path)));
  const changedFields = [...fieldsOf(after, rootOf(resource))].filter(changed);
  const managers = readManagers(present);
  const own = managers.find((entry) => isManager(entry, writer, 'Update'));
  const others = managers
    .filter((entry) => entry !== own)
    .map((entry) =>
      entry.subresource === (part === 'status' ? 'status' : '')
        ? { ...entry, fields: new Set([...entry.fields].filter((path) => !changed(path))) }
        : entry,
    );
  const kept = [...(own?.fields ?? [])].filter(
    (path) => valueAtPath(after, elementsOf(path)) !== undefined,
  );
  return writeManagers([
    ...others,
    entryOf(writer, 'Update', new Set([...kept, ...changedFields])),
  ]);
}

export const entryOf = (
  { manager, resource, part, nowMs }: Writer,
  operation: ManagerEntry['operation'],
  fields: FieldSet,
): ManagerEntry => ({
  manager,
  operation,
  apiVersion: apiVersionOf(resource),
  time: timestampOf(nowMs),
  subresource: part === 'status' ? 'status' : '',
  fields,
});

/** Managers of an object; without managedFields `before-first-apply`, as in Kubernetes. */
export function managersOf(old: ApiObject, writer: Writer): readonly ManagerEntry[] {
  if (old.metadata.managedFields !== undefined) return readManagers(old.metadata.managedFields);
  const fields = fieldsOf(ownable(old, { ...writer, part: 'main' }), rootOf(writer.resource));
  return [entryOf({ ...writer, manager: 'before-first-apply', part: 'main' }, 'Update', fields)];
}
