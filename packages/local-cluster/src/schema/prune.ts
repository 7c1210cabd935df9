import { isArray, isObject, type Json, type JsonObject } from '../json/json.ts';
import { setOwn } from '../json/merge-patch.ts';
import { partOf, preservesUnknown, type Schema } from './structural-schema.ts';

const embedded: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

/**
 * Returns the value without fields that the schema does not define. The paths of dropped fields are
 * added to `unknown` in the form of strict decoding (`spec.content[0].x`).
 */
export function prune(value: Json, schema: Schema, unknown: string[], path = ''): Json {
  if (isArray(value)) {
    const { items } = schema;
    if (items === undefined) return value;
    return mapChanged(value, (item, index) => prune(item, items, unknown, `${path}[${index}]`));
  }
  if (!isObject(value)) return value;
  return pruneObject(value, schema, unknown, path);
}

function mapChanged(
  items: readonly Json[],
  map: (item: Json, index: number) => Json,
): readonly Json[] {
  const mapped = items.map(map);
  return mapped.every((item, index) => item === items[index]) ? items : mapped;
}

function pruneObject(
  value: JsonObject,
  schema: Schema,
  unknown: string[],
  path: string,
): JsonObject {
  const result: Record<string, Json | undefined> = {};
  let changed = false;
  for (const [key, child] of Object.entries(value)) {
    if (child === undefined) continue;
    const at = path === '' ? key : `${path}.${key}`;
    const known = partOf(schema, key);
    if (known === undefined) {
      if (
        preservesUnknown(schema) ||
        (schema['x-kubernetes-embedded-resource'] === true && embedded.has(key))
      )
        setOwn(result, key, child);
      else {
        unknown.push(at);
        changed = true;
      }
      continue;
    }
    const pruned = prune(child, known, unknown, at);
    changed ||= pruned !== child;
    setOwn(result, key, pruned);
  }
  return changed ? result : value;
}
