import { type Json, isArray, isObject, type JsonObject, setOwn } from '../json/json.ts';

/** The keywords of OpenAPI v3 that the control plane uses. All other keywords are not checked. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly format?: string;
  readonly default?: Json;
  readonly enum?: readonly Json[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly exclusiveMinimum?: boolean;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-list-type'?: 'map';
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-validations'?: readonly ValidationRule[];
}

export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly fieldPath?: string;
}

export const valuesOf = (schema: Schema | undefined): Schema | undefined =>
  typeof schema?.additionalProperties === 'object' ? schema.additionalProperties : undefined;

/** Returns the schema of a field, or of a map's values; undefined if `schema` has neither. */
export const partOf = (schema: Schema | undefined, key: string): Schema | undefined =>
  schema?.properties !== undefined && Object.hasOwn(schema.properties, key)
    ? schema.properties[key]
    : valuesOf(schema);

const preservesUnknown = (schema: Schema): boolean =>
  schema['x-kubernetes-preserve-unknown-fields'] === true || schema.additionalProperties === true;

/**
 * Returns the value without the fields that the schema lacks. Adds the paths of these fields to
 * `unknown`, in the form of strict decoding (`spec.content[0].x`).
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
      if (preservesUnknown(schema)) setOwn(result, key, child);
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

/**
 * Fills absent fields with the schema's defaults. As in Kubernetes, a null that the schema does not
 * allow counts as absent: the default replaces it, or the field is removed.
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
    const start = present ?? property.default;
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
      if (child === null) Reflect.deleteProperty(result, key);
      else if (next === child) continue;
      else setOwn(result, key, next);
      changed = true;
    }
  }
  return changed ? result : value;
}
