import {
  equal,
  isArray,
  isObject,
  stringAt,
  type Json,
  type JsonArray,
  type JsonObject,
} from '../json/json.ts';
import { setOwn } from '../json/merge-patch.ts';
import { builtinListKeys } from './list-keys.ts';

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

/** Returns the first key of the items; containers have ports with another key than services. */
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

/**
 * Sorts the list in the order of the patch; items that the order does not name remain at the end.
 */
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
