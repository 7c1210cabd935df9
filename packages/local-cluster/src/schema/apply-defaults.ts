import { isArray, isObject, type Json, type JsonObject } from '../json/json.ts';
import { setOwn } from '../json/merge-patch.ts';
import { valuesOf, type Schema } from './structural-schema.ts';

/**
 * Returns the value with the defaults of the schema for absent fields. As in Kubernetes, a null
 * that a field does not allow counts as absent: the default replaces the null, or the field is
 * removed.
 */
export function applyDefaults(value: Json, schema: Schema): Json {
  if (isArray(value)) {
    const { items } = schema;
    if (items === undefined) return value;
    const mapped = value.map((item) => applyDefaults(item, items));
    return mapped.every((item, index) => item === value[index]) ? value : mapped;
  }
  return isObject(value) ? objectDefaults(value, schema) : value;
}

function objectDefaults(value: JsonObject, schema: Schema): JsonObject {
  const result: Record<string, Json | undefined> = { ...value };
  let changed = false;
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    const present = Object.hasOwn(value, key) ? value[key] : undefined;
    const absent = present === undefined || (present === null && property.nullable !== true);
    const start = absent ? property.default : present;
    if (start === undefined) {
      changed ||= present !== undefined;
      Reflect.deleteProperty(result, key);
      continue;
    }
    const next = applyDefaults(start, property);
    if (next === present) continue;
    setOwn(result, key, next);
    changed = true;
  }
  const values = valuesOf(schema);
  if (values !== undefined) {
    for (const [key, child] of Object.entries(value)) {
      if (child === undefined) continue;
      const next = applyDefaults(child, values);
      const isDropped = child === null && values.nullable !== true;
      if (next === child && !isDropped) continue;
      if (isDropped) Reflect.deleteProperty(result, key);
      else setOwn(result, key, next);
      changed = true;
    }
  }
  return changed ? result : value;
}
