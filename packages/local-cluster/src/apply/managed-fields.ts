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
} from '../json/json.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import {
  elementsOf,
  fieldsOf,
  fromFieldsV1,
  toFieldsV1,
  valueAtPath,
  type FieldSet,
  type Place,
} from './field-set.ts';

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
  (managedFields ?? []).filter(isObject).map((entry) => ({
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
export function ownable(object: JsonObject, part: Writer['part'], hasStatus: boolean): JsonObject {
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
  const before = ownable(old, part, resource.hasStatus);
  const after = ownable(sent, part, resource.hasStatus);
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
  const fields = fieldsOf(ownable(old, 'main', writer.resource.hasStatus), rootOf(writer.resource));
  return [entryOf({ ...writer, manager: 'before-first-apply', part: 'main' }, 'Update', fields)];
}
