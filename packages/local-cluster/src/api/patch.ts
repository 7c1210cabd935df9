import jsonPatch, { type Operation } from 'fast-json-patch';
import { isDeeperThan } from '@conversation-operator/base/json-text';
import {
  isArray,
  isObject,
  type Json,
  type JsonObject,
  mergeObject,
  equal,
  stringAt,
  type JsonArray,
  setOwn,
} from '../json/json.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import { badRequest, StatusError, tooLarge, unsupportedMediaType } from './status-error.ts';

export const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
} as const;

/** Merge keys of the lists in built-in kinds, by field name. `mergeKeyOf` handles `ports`. */
const builtinListKeys: Readonly<Record<string, readonly string[]>> = {
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

/** Maximum depth of a body. No useful object is deeper. Recursive functions handle this depth. */
const maxDepth = 1000;

export function parseJson(text: string): Json {
  try {
    const value = JSON.parse(text) as Json;
    if (isDeeperThan(value, maxDepth)) throw new RangeError('exceeded max depth');
    return value;
  } catch (error) {
    throw badRequest(
      `error decoding the body: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** @throws StatusError 415 for an unsupported `type`, 422 for a JSON patch that does not apply */
export function patched(
  object: JsonObject,
  type: string,
  text: string,
  resource: ApiResource,
): JsonObject {
  switch (type) {
    case patchTypes.merge:
      return mergeObject(object, objectIn(text));
    case patchTypes.strategic:
      if (!resource.builtin) throw unsupportedMediaType([patchTypes.json, patchTypes.merge]);
      return strategicMergePatch(object, objectIn(text));
    case patchTypes.json:
      return jsonPatched(object, parseJson(text));
    default:
      throw unsupportedMediaType(Object.values(patchTypes));
  }
}

function objectIn(text: string): JsonObject {
  const patch = parseJson(text);
  if (!isObject(patch)) throw badRequest('the patch must be an object');
  return patch;
}

const maxOperations = 10_000;

/** Turns `replace` of an absent member into `add`, as Kubernetes does, unlike RFC 6902. */
function addedWhereAbsent(operation: Operation, document: unknown): Operation {
  if (operation.op !== 'replace') return operation;
  const keys = operation.path.split('/').slice(1);
  const last = keys.pop()?.replaceAll('~1', '/').replaceAll('~0', '~');
  const parent: unknown = jsonPatch.getValueByPointer(
    document,
    keys.map((key) => `/${key}`).join(''),
  );
  return isObject(parent) && last !== undefined && !Object.hasOwn(parent, last)
    ? { ...operation, op: 'add' }
    : operation;
}

function jsonPatched(object: JsonObject, operations: Json): JsonObject {
  if (!isArray(operations)) throw badRequest('the patch must be a list of operations');
  if (operations.length > maxOperations) {
    throw tooLarge(
      `The allowed maximum operations in a JSON patch is ${maxOperations}, got ${operations.length}`,
    );
  }
  try {
    let document: unknown = structuredClone(object);
    for (const operation of structuredClone(operations) as unknown as Operation[])
      document = jsonPatch.applyOperation(
        document,
        addedWhereAbsent(operation, document),
        true,
        true,
        true,
      ).newDocument;
    return document as JsonObject;
  } catch (error) {
    throw new StatusError(
      422,
      'Invalid',
      'the server rejected our request due to an error in our request',
      undefined,
      { cause: error },
    );
  }
}

const directive = '$patch';
const retainKeys = '$retainKeys';
const orderPrefix = '$setElementOrder/';
const deletePrefix = '$deleteFromPrimitiveList/';

export function strategicMergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  if (patch[directive] === 'delete') return {};
  const replaces = patch[directive] === 'replace';
  const retained = patch[retainKeys];
  const kept = isArray(retained)
    ? Object.entries(target).filter(([key]) => retained.includes(key))
    : Object.entries(target);
  const result: Record<string, Json | undefined> = replaces ? {} : Object.fromEntries(kept);
  for (const [key, value] of Object.entries(patch)) {
    if (
      value === undefined ||
      key === directive ||
      key === retainKeys ||
      key.startsWith(orderPrefix)
    )
      continue;
    if (key.startsWith(deletePrefix))
      removePrimitives(result, key.slice(deletePrefix.length), value);
    else if (value === null) Reflect.deleteProperty(result, key);
    else setOwn(result, key, mergeField(key, result[key], value));
  }
  for (const [key, order] of Object.entries(patch)) {
    if (key.startsWith(orderPrefix) && isArray(order))
      reorder(result, key.slice(orderPrefix.length), order);
  }
  return result;
}

function removePrimitives(
  result: Record<string, Json | undefined>,
  key: string,
  removed: Json,
): void {
  const present = result[key];
  if (isArray(present) && isArray(removed))
    setOwn(
      result,
      key,
      present.filter((item) => !removed.includes(item)),
    );
}

function mergeField(key: string, present: Json | undefined, value: Json): Json {
  if (isObject(value)) return strategicMergePatch(isObject(present) ? present : {}, value);
  if (!isArray(value) || !isArray(present))
    return isArray(value) ? withoutDirectives(value) : value;
  if (key === 'finalizers') return [...present, ...value.filter((item) => !present.includes(item))];
  const mergeKey = mergeKeyOf(key, [...value, ...present]);
  return mergeKey === undefined ? withoutDirectives(value) : mergeList(mergeKey, present, value);
}

/** Returns the merge key of a list. Ports of containers and of services have different keys. */
const mergeKeyOf = (field: string, items: JsonArray): string | undefined => {
  const has = (key: string) => items.some((item) => isObject(item) && item[key] !== undefined);
  const keys =
    field === 'ports' ? ['containerPort', 'port'] : (builtinListKeys[field] ?? []).slice(0, 1);
  return keys.find(has);
};

const withoutDirectives = (items: JsonArray): JsonArray =>
  items.flatMap((item): Json[] => {
    if (!isObject(item)) return [item];
    if (item[directive] !== undefined && Object.keys(item).length === 1) return [];
    return item[directive] === 'delete' ? [] : [strategicMergePatch({}, item)];
  });

function mergeList(mergeKey: string, present: JsonArray, patch: JsonArray): JsonArray {
  if (patch.some((item) => isObject(item) && item[directive] === 'replace'))
    return withoutDirectives(patch);
  let result: JsonArray = present;
  for (const item of patch) {
    if (!isObject(item)) continue;
    const index = result.findIndex(
      (other) => isObject(other) && equal(other[mergeKey], item[mergeKey]),
    );
    if (stringAt(item, directive) === 'delete')
      result = result.filter((_, position) => position !== index);
    else if (index === -1) result = [...result, strategicMergePatch({}, item)];
    else
      result = result.map((other, position) =>
        position === index && isObject(other) ? strategicMergePatch(other, item) : other,
      );
  }
  return result;
}

/** Sorts a list in the order of the patch. Items that are not in the order go to the end. */
function reorder(result: Record<string, Json | undefined>, key: string, order: JsonArray): void {
  const items = result[key];
  if (!isArray(items)) return;
  const mergeKey = mergeKeyOf(key, items);
  const identity = (item: Json): Json | undefined =>
    isObject(item) && mergeKey !== undefined ? item[mergeKey] : item;
  const rank = (item: Json): number => {
    const found = order.findIndex((wanted) => equal(identity(wanted), identity(item)));
    return found === -1 ? order.length : found;
  };
  setOwn(
    result,
    key,
    [...items].sort((a, b) => rank(a) - rank(b)),
  );
}
