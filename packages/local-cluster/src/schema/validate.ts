import {
  equal,
  isArray,
  isObject,
  type Json,
  type JsonArray,
  type JsonObject,
} from '../json/json.ts';
import { checkRules } from './cel-rules.ts';
import * as fault from './field-error.ts';
import type { FieldError } from './field-error.ts';
import { hasFormat } from './formats.ts';
import { valuesOf, type Schema } from './structural-schema.ts';

const typeOf = (value: Json): string => {
  if (value === null) return 'null';
  if (isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
};

const hasType = (value: Json, type: string): boolean =>
  typeOf(value) === type || (type === 'number' && typeof value === 'number');

const child = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);
const mapChild = (path: string, key: string): string =>
  /^[A-Za-z_][\w-]*$/.test(key) ? child(path, key) : `${path}[${key}]`;

/** Reasons that suppress the rules, which rely on a value that satisfies its schema. */
const blocking: ReadonlySet<string> = new Set([
  'FieldValueRequired',
  'FieldValueTypeInvalid',
  'FieldValueNotSupported',
  'FieldValueTooLong',
  'FieldValueTooMany',
]);

const rulesUnchecked: FieldError = {
  field: '<nil>',
  reason: 'FieldValueInvalid',
  message:
    'Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
};

/**
 * Returns the errors of a value: first those of the schema, then those of its rules. With `old`,
 * transition rules apply, and an unchanged value is accepted (the ratcheting of Kubernetes), so
 * that a schema may become stricter while objects exist.
 */
export function validate(
  value: Json,
  schema: Schema,
  path = '',
  old?: Json,
): readonly FieldError[] {
  const errors = schemaErrors(value, schema, path, old);
  if (!hasRules(schema)) return errors;
  if (errors.some(({ reason }) => blocking.has(reason))) return [...errors, rulesUnchecked];
  return [...errors, ...ruleErrors(value, schema, path, old)];
}

const ruled = new WeakMap<Schema, boolean>();

/** Returns whether the schema contains rules at any depth. */
function hasRules(schema: Schema): boolean {
  const known = ruled.get(schema);
  if (known !== undefined) return known;
  // The preliminary result ends the recursion of a schema that contains itself.
  ruled.set(schema, false);
  const parts = [...Object.values(schema.properties ?? {}), schema.items, valuesOf(schema)];
  const has =
    (schema['x-kubernetes-validations'] ?? []).length > 0 ||
    parts.some((part) => part !== undefined && hasRules(part));
  ruled.set(schema, has);
  return has;
}

/** Returns the errors of the rules, from the outside in. Unchanged values are not checked again. */
function ruleErrors(
  value: Json,
  schema: Schema,
  path: string,
  old: Json | undefined,
): readonly FieldError[] {
  if (!hasRules(schema) || (value === null && schema.nullable === true)) return [];
  if (old !== undefined && equal(value, old)) return [];
  const own = checkRules(value, old, schema, path);
  const { items } = schema;
  if (isArray(value)) {
    if (items === undefined) return own;
    const oldItem = correlate(schema, old);
    return [
      ...own,
      ...value.flatMap((item, index) =>
        ruleErrors(item, items, `${path}[${index}]`, oldItem(item)),
      ),
    ];
  }
  if (!isObject(value)) return own;
  const before = isObject(old) ? old : undefined;
  const inner = Object.entries(value).flatMap(([key, item]) => {
    const property = propertyOf(schema, key);
    const part = property ?? valuesOf(schema);
    if (item === undefined || part === undefined) return [];
    return ruleErrors(
      item,
      part,
      property === undefined ? mapChild(path, key) : child(path, key),
      before?.[key],
    );
  });
  return [...own, ...inner];
}

const propertyOf = ({ properties }: Schema, key: string): Schema | undefined =>
  properties !== undefined && Object.hasOwn(properties, key) ? properties[key] : undefined;

function schemaErrors(
  value: Json,
  schema: Schema,
  path: string,
  old: Json | undefined,
): readonly FieldError[] {
  if (old !== undefined && equal(value, old)) return [];
  if (value === null && schema.nullable === true) return [];
  if (schema['x-kubernetes-int-or-string'] === true) {
    if (typeof value === 'string' || Number.isInteger(value))
      return scalarErrors(value, schema, path);
    return [wrongType(path, value, 'integer,string')];
  }
  if (schema.type !== undefined && !hasType(value, schema.type))
    return [wrongType(path, value, schema.type)];
  const errors = [...scalarErrors(value, schema, path), ...junctorErrors(value, schema, path)];
  if (isArray(value)) errors.push(...arrayErrors(value, schema, path, old));
  else if (isObject(value)) errors.push(...objectErrors(value, schema, path, old));
  return errors;
}

const wrongType = (path: string, value: Json, type: string): FieldError => {
  const actual = typeOf(value);
  return fault.typeInvalid(path, actual, `${path} in body must be of type ${type}: "${actual}"`);
};

function scalarErrors(value: Json, schema: Schema, path: string): FieldError[] {
  const errors: FieldError[] = [];
  if (schema.enum?.some((allowed) => equal(allowed, value)) === false) {
    errors.push(
      fault.notSupported(
        path,
        value,
        schema.enum.map((item) => (typeof item === 'string' ? item : JSON.stringify(item))),
      ),
    );
  }
  if (typeof value === 'number') errors.push(...numberErrors(value, schema, path));
  if (typeof value === 'string') errors.push(...stringErrors(value, schema, path));
  return errors;
}

function numberErrors(value: number, schema: Schema, path: string): FieldError[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const errors: FieldError[] = [];
  const refuse = (rule: string) =>
    errors.push(fault.invalidValue(path, value, `${path} in body should be ${rule}`));
  if (minimum !== undefined && (exclusiveMinimum === true ? value <= minimum : value < minimum)) {
    refuse(
      exclusiveMinimum === true ? `greater than ${minimum}` : `greater than or equal to ${minimum}`,
    );
  }
  if (maximum !== undefined && (exclusiveMaximum === true ? value >= maximum : value > maximum)) {
    refuse(exclusiveMaximum === true ? `less than ${maximum}` : `less than or equal to ${maximum}`);
  }
  if (multipleOf !== undefined && value % multipleOf !== 0) refuse(`a multiple of ${multipleOf}`);
  return errors;
}

const patterns = new Map<string, RegExp>();
/**
 * Returns the compiled pattern. Kubernetes uses RE2; the syntax that both engines support is the
 * same.
 */
function patternOf(source: string): RegExp {
  const known = patterns.get(source);
  if (known !== undefined) return known;
  const pattern = new RegExp(source);
  if (patterns.size > 1000) patterns.clear();
  patterns.set(source, pattern);
  return pattern;
}

/** Counts code points, as Go counts runes. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function stringErrors(value: string, schema: Schema, path: string): FieldError[] {
  const { minLength, maxLength, pattern, format } = schema;
  const errors: FieldError[] = [];
  // The length counts characters instead of UTF-16 units, and only where the difference matters.
  const length =
    minLength !== undefined || (maxLength !== undefined && value.length > maxLength)
      ? characters(value)
      : value.length;
  if (minLength !== undefined && length < minLength) {
    errors.push(
      fault.invalidValue(path, value, `${path} in body should be at least ${minLength} chars long`),
    );
  }
  if (maxLength !== undefined && length > maxLength) errors.push(fault.tooLong(path, maxLength));
  if (pattern !== undefined && !patternOf(pattern).test(value)) {
    errors.push(fault.invalidValue(path, value, `${path} in body should match '${pattern}'`));
  }
  if (format !== undefined && !hasFormat(value, format)) {
    errors.push(
      fault.typeInvalid(
        path,
        value,
        `${path} in body must be of type ${format}: ${JSON.stringify(value)}`,
      ),
    );
  }
  return errors;
}

function arrayErrors(
  value: JsonArray,
  schema: Schema,
  path: string,
  old: Json | undefined,
): FieldError[] {
  const { items, minItems, maxItems } = schema;
  const errors: FieldError[] = [];
  if (minItems !== undefined && value.length < minItems) {
    errors.push(
      fault.invalidValue(
        path,
        value.length,
        `${path} in body should have at least ${minItems} items`,
      ),
    );
  }
  if (maxItems !== undefined && value.length > maxItems)
    errors.push(fault.tooMany(path, value.length, maxItems));
  if (items !== undefined) {
    const oldItem = correlate(schema, old);
    value.forEach((item, index) =>
      errors.push(...schemaErrors(item, items, `${path}[${index}]`, oldItem(item))),
    );
  }
  errors.push(...duplicateErrors(value, schema, path));
  return errors;
}

const keyIn = (item: Json, schema: Schema): string =>
  JSON.stringify(
    (schema['x-kubernetes-list-map-keys'] ?? []).map((key) =>
      isObject(item) ? (item[key] ?? schema.items?.properties?.[key]?.default) : null,
    ),
  );

/**
 * Returns a function that finds the old item of an item. Only lists of type map correlate their
 * items.
 */
function correlate(schema: Schema, old: Json | undefined): (item: Json) => Json | undefined {
  if (!isArray(old) || schema['x-kubernetes-list-type'] !== 'map') return () => undefined;
  const byKey = new Map(old.map((item) => [keyIn(item, schema), item]));
  return (item) => byKey.get(keyIn(item, schema));
}

function duplicateErrors(value: JsonArray, schema: Schema, path: string): FieldError[] {
  const type = schema['x-kubernetes-list-type'];
  if (type !== 'map' && type !== 'set') return [];
  const seen = new Set<string>();
  return value.flatMap((item, index) => {
    const identity = type === 'map' ? keyIn(item, schema) : JSON.stringify(item);
    if (!seen.has(identity)) {
      seen.add(identity);
      return [];
    }
    const keys = schema['x-kubernetes-list-map-keys'] ?? [];
    const shown =
      type === 'map' && isObject(item)
        ? Object.fromEntries(keys.map((key) => [key, item[key]]))
        : item;
    return [fault.duplicate(`${path}[${index}]`, shown)];
  });
}

function objectErrors(
  value: JsonObject,
  schema: Schema,
  path: string,
  old: Json | undefined,
): FieldError[] {
  const errors = (schema.required ?? [])
    .filter((key) => value[key] === undefined)
    .map((key) => fault.required(child(path, key)));
  const before = isObject(old) ? old : undefined;
  const values = valuesOf(schema);
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    const property = propertyOf(schema, key);
    if (property !== undefined)
      errors.push(...schemaErrors(item, property, child(path, key), before?.[key]));
    else if (values !== undefined)
      errors.push(...schemaErrors(item, values, mapChild(path, key), before?.[key]));
  }
  const count = Object.keys(value).length;
  if (schema.maxProperties !== undefined && count > schema.maxProperties)
    errors.push(fault.tooMany(path, count, schema.maxProperties));
  if (schema.minProperties !== undefined && count < schema.minProperties) {
    errors.push(
      fault.invalidValue(
        path,
        value,
        `${path} in body should have at least ${schema.minProperties} properties`,
      ),
    );
  }
  return errors;
}

function junctorErrors(value: Json, schema: Schema, path: string): FieldError[] {
  const { allOf, anyOf, oneOf, not } = schema;
  const holds = (part: Schema): boolean => schemaErrors(value, part, path, undefined).length === 0;
  const errors = (allOf ?? []).flatMap((part) => schemaErrors(value, part, path, undefined));
  // As in Kubernetes, only the message names the field.
  const refuse = (rule: string) =>
    errors.push(fault.invalidValue('<nil>', '', `${JSON.stringify(path)} ${rule}`));
  if (anyOf !== undefined && !anyOf.some(holds))
    refuse('must validate at least one schema (anyOf)');
  const count = oneOf?.filter(holds).length ?? 1;
  if (count !== 1) {
    refuse(
      `must validate one and only one schema (oneOf). Found ${count === 0 ? 'none valid' : `${count} valid alternatives`}`,
    );
  }
  if (not !== undefined && holds(not)) refuse('must not validate the schema (not)');
  return errors;
}
