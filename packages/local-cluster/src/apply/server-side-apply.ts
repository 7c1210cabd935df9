import type { ApiObject } from '../api/api-object.ts';
import { StatusError } from '../api/status-error.ts';
import {
  equal,
  isArray,
  isObject,
  type Json,
  type JsonArray,
  type JsonObject,
  setOwn,
  objectAt,
  stringAt,
} from '../json/json.ts';
import {
  elementsOf,
  fieldsOf,
  itemElement,
  removedAtPath,
  shownPath,
  valueAtPath,
  type FieldSet,
  childPlace,
  identityAt,
  isAtomicMap,
  itemPlace,
  type Place,
  entryOf,
  managersOf,
  ownable,
  rootOf,
  writeManagers,
  type ManagerEntry,
  type Writer,
} from './managed-fields.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { prune } from '../schema/structural-schema.ts';

export interface Application extends Writer {
  readonly old: ApiObject | undefined;
  readonly config: JsonObject;
  /** Takes over conflicting fields of other managers. */
  readonly force: boolean;
}

/** Merges a configuration: maps by key, lists by identity of items, atomic values as a whole. */
function merged(live: Json | undefined, config: Json, place: Place): Json {
  if (isObject(config) && isObject(live) && !isAtomicMap(place)) {
    const result: Record<string, Json | undefined> = { ...live };
    for (const [key, value] of Object.entries(config))
      if (value !== undefined)
        setOwn(result, key, merged(live[key], value, childPlace(place, key)));
    return result;
  }
  if (!isArray(config) || !isArray(live) || identityAt(place).kind === 'atomic') return config;
  const configured = new Map(config.map((item) => [itemElement(item, place), item]));
  const kept = live.map((item) => {
    const element = itemElement(item, place);
    const update = configured.get(element);
    configured.delete(element);
    return update === undefined ? item : merged(item, update, itemPlace(place));
  });
  return [...kept, ...configured.values()];
}

/** A merged object with the fields that its manager wants, and the entries of the managers. */
interface Merge {
  readonly object: JsonObject;
  readonly wanted: FieldSet;
  readonly own: ManagerEntry | undefined;
  readonly others: readonly ManagerEntry[];
}

/**
 * Server-side apply: returns the merged object and the managers after the apply.
 * @throws StatusError 409 for fields of other managers that would change, unless forced
 */
export function applied(application: Application): {
  readonly object: JsonObject;
  readonly managedFields: JsonArray;
} {
  const { old, config, resource } = application;
  const place = rootOf(resource);
  const wanted = fieldsOf(ownable(config, application), place);
  const present = old === undefined ? [] : managersOf(old, application);
  const own = present.find((entry) => isOwn(entry, application));
  const others = present.filter((entry) => entry !== own);
  const mergedObject = old === undefined ? config : merged(old, config, place);
  const object = isObject(mergedObject) ? mergedObject : config;
  const merge = { object, wanted, own, others };
  const lost = conflictsOf(application, merge);
  const pruned = withoutAbandoned(merge);
  const remaining = others.map((entry) => ({
    ...entry,
    fields: new Set([...entry.fields].filter((path) => !lost.includes(path))),
  }));
  const managers = [...remaining, entryOf(application, 'Apply', wanted)];
  return { object: pruned, managedFields: keepTime(writeManagers(managers), old, application) };
}

const isOwn = (entry: ManagerEntry, { manager, part }: Application): boolean =>
  entry.manager === manager &&
  entry.operation === 'Apply' &&
  entry.subresource === (part === 'status' ? 'status' : '');

/** Returns the changed fields of other managers, which a forced apply takes over. */
function conflictsOf(
  { old, force }: Application,
  { object, wanted, others }: Merge,
): readonly string[] {
  if (old === undefined) return [];
  const changed = [...wanted].filter(
    (path) => !equal(valueAtPath(old, elementsOf(path)), valueAtPath(object, elementsOf(path))),
  );
  const conflicts = others.flatMap((entry) =>
    changed
      .filter((path) => entry.fields.has(path) && !isItemPath(path))
      .map((path) => ({ entry, path })),
  );
  if (conflicts.length === 0 || force) return conflicts.map(({ path }) => path);
  const named = (entry: ManagerEntry) =>
    `conflict with "${entry.manager}"${entry.operation === 'Update' ? ` using ${entry.apiVersion}` : ''}`;
  const [only] = conflicts;
  const summary =
    conflicts.length === 1 && only !== undefined
      ? `1 conflict: ${named(only.entry)}: ${shownPath(only.path)}`
      : `${conflicts.length} conflicts: ${[...Map.groupBy(conflicts, ({ entry }) => entry)]
          .map(
            ([entry, own]) =>
              `${named(entry).replace('conflict', 'conflicts')}:${own.map(({ path }) => `\n- ${shownPath(path)}`).join('')}`,
          )
          .join('\n')}`;
  throw new StatusError(409, 'Conflict', `Apply failed with ${summary}`, {
    causes: conflicts.map(({ entry, path }) => ({
      reason: 'FieldManagerConflict',
      message: named(entry),
      field: shownPath(path),
    })),
  });
}

/** The existence of an item is not a conflict; its fields may be. */
const isItemPath = (path: string): boolean => elementsOf(path).at(-1)?.startsWith('k:') === true;

/** Removes fields that this manager no longer applies, unless another manager owns them. */
function withoutAbandoned({ object, wanted, own, others }: Merge): JsonObject {
  const abandoned = [...(own?.fields ?? [])].filter((path) => {
    const within = (other: string) => other === path || other.startsWith(`${path}\0`);
    return ![...wanted].some(within) && !others.some(({ fields }) => [...fields].some(within));
  });
  const result = abandoned.reduce<Json>(
    (value, path) => removedAtPath(value, elementsOf(path)),
    object,
  );
  return isObject(result) ? result : object;
}

/** Keeps the time of an unchanged manager, so that an apply without changes changes nothing. */
function keepTime(
  managers: JsonArray,
  old: ApiObject | undefined,
  { manager }: Application,
): JsonArray {
  const before = old?.metadata.managedFields ?? [];
  return managers.map((entry) => {
    if (!isObject(entry) || entry['manager'] !== manager) return entry;
    const same = before.find(
      (other) => isObject(other) && equal({ ...other, time: '' }, { ...entry, time: '' }),
    );
    return same ?? entry;
  });
}

/** Returns the duplicate items of lists whose items have an identity. */
function duplicateItems(value: Json | undefined, place: Place, path: string): readonly string[] {
  if (isObject(value)) {
    return Object.entries(value).flatMap(([key, child]) =>
      duplicateItems(child, childPlace(place, key), `${path}.${key}`),
    );
  }
  if (!isArray(value)) return [];
  const seen = new Set<string>();
  return value.flatMap((item) => {
    const element = itemElement(item, place);
    if (element === undefined) return [];
    const inner = duplicateItems(item, itemPlace(place), `${path}${shownPath(element)}`);
    if (!seen.has(element)) {
      seen.add(element);
      return inner;
    }
    return [`${path}: duplicate entries for key ${shownPath(element)}`, ...inner];
  });
}

/**
 * Checks that the schema of the kind defines every applied field, because an unknown field could
 * have no owner. Kubernetes answers such a configuration with 500.
 * @throws StatusError
 */
export function checkTyped(config: JsonObject, resource: ApiResource): void {
  const unknown: string[] = [];
  prune(config, resource.schema, unknown);
  const faults = [
    ...unknown.map((field) => `.${field}: field not declared in schema`),
    ...duplicateItems(config, rootOf(resource), ''),
  ];
  if (faults.length === 0) return;
  const metadata = objectAt(config, 'metadata');
  const subject = `${stringAt(metadata, 'namespace') ?? ''}/${stringAt(metadata, 'name') ?? ''}; ${apiVersionOf(resource)}, Kind=${resource.kind}`;
  const text =
    faults.length === 1
      ? (faults[0] ?? '')
      : `errors:\n${faults.map((fault) => `  ${fault}`).join('\n')}`;
  throw new StatusError(500, '', `failed to create typed patch object (${subject}): ${text}`);
}
