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
import { partOf, valuesOf, type Schema } from './structural-schema.ts';

const typeOf = (value: Json): string => {
  if (value === null) return 'null';
  if (isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
};

const hasType = (value: Json, type: string): boolean =>
  typeOf(value) === type || (type === 'number' && typeof value === 'number');

/** Reasons of errors after which rules are not checked. Rules need values that fit the schema. */
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

/** Whether the schema contains CEL rules at any depth. */
function hasRules(schema: Schema): boolean {
  const known = ruled.get(schema);
  if (known !== undefined) return known;
  const parts = [...Object.values(schema.properties ?? {}), schema.items, valuesOf(schema)];
  const has =
    (schema['x-kubernetes-validations'] ?? []).length > 0 ||
    parts.some((part) => part !== undefined && hasRules(part));
  ruled.set(schema, has);
  return has;
}

/** Returns the errors of CEL rules, parents first. Does not check the rules of unchanged values. */
function ruleErrors(
  value: Json,
  schema: Schema,
  path: string,
  old: Json | undefined,
): readonly FieldError[] {
  if (!hasRules(schema)) return [];
  if (old !== undefined && equal(value, old)) return [];
  return [
    ...checkRules(value, old, schema, path),
    ...childrenOf(value, schema, path, old).flatMap((child) => ruleErrors(...child)),
  ];
}

type Node = readonly [value: Json, schema: Schema, path: string, old: Json | undefined];

function childrenOf(...[value, schema, path, old]: Node): readonly Node[] {
  if (isArray(value)) {
    const { items } = schema;
    const oldItem = correlate(schema, old);
    return items === undefined
      ? []
      : value.map((item, index) => [item, items, `${path}[${index}]`, oldItem(item)]);
  }
  if (!isObject(value)) return [];
  const before = isObject(old) ? old : undefined;
  return Object.entries(value).flatMap(([key, item]): readonly Node[] => {
    const part = partOf(schema, key);
    return item === undefined || part === undefined
      ? []
      : [[item, part, childPath(schema, path, key), before?.[key]]];
  });
}

const dotted = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);
const childPath = ({ properties }: Schema, path: string, key: string): string =>
  (properties !== undefined && Object.hasOwn(properties, key)) || /^[A-Za-z_][\w-]*$/.test(key)
    ? dotted(path, key)
    : `${path}[${key}]`;

function schemaErrors(
  value: Json,
  schema: Schema,
  path: string,
  old: Json | undefined,
): readonly FieldError[] {
  if (old !== undefined && equal(value, old)) return [];
  if (schema['x-kubernetes-int-or-string'] === true) {
    if (typeof value === 'string' || Number.isInteger(value))
      return scalarErrors(value, schema, path);
    return [wrongType(path, value, 'integer,string')];
  }
  if (schema.type !== undefined && !hasType(value, schema.type))
    return [wrongType(path, value, schema.type)];
  return [
    ...scalarErrors(value, schema, path),
    ...(isObject(value) ? missingErrors(value, schema, path) : []),
    ...childrenOf(value, schema, path, old).flatMap((child) => schemaErrors(...child)),
    ...(isArray(value) ? arrayErrors(value, schema, path) : []),
    ...(isObject(value) ? countErrors(value, schema, path) : []),
  ];
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

function numberErrors(
  value: number,
  { minimum, exclusiveMinimum = false, maximum }: Schema,
  path: string,
): FieldError[] {
  const refuse = (rule: string) => [
    fault.invalidValue(path, value, `${path} in body should be ${rule}`),
  ];
  return [
    ...(minimum !== undefined && (exclusiveMinimum ? value <= minimum : value < minimum)
      ? refuse(`greater than ${exclusiveMinimum ? '' : 'or equal to '}${minimum}`)
      : []),
    ...(maximum !== undefined && value > maximum ? refuse(`less than or equal to ${maximum}`) : []),
  ];
}

const patterns = new Map<string, RegExp>();
/** Compiles a pattern. Syntax of Kubernetes' RE2 that JavaScript supports has the same meaning. */
function patternOf(source: string): RegExp {
  const known = patterns.get(source);
  if (known !== undefined) return known;
  const pattern = new RegExp(source);
  if (patterns.size > 1000) patterns.clear();
  patterns.set(source, pattern);
  return pattern;
}

const dateTime = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;
const isDateTime = (text: string): boolean =>
  dateTime.test(text) && !Number.isNaN(Date.parse(text));

/** Counts code points, as Go counts runes. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function stringErrors(value: string, schema: Schema, path: string): FieldError[] {
  const { minLength, maxLength, pattern, format } = schema;
  const errors: FieldError[] = [];
  // A length counts characters, as in Go. `value.length` is used if it gives the same result.
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
  if (format === 'date-time' && !isDateTime(value)) {
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

function arrayErrors(value: JsonArray, schema: Schema, path: string): FieldError[] {
  const { minItems, maxItems } = schema;
  const { length } = value;
  return [
    ...(minItems !== undefined && length < minItems
      ? [fault.invalidValue(path, length, `${path} in body should have at least ${minItems} items`)]
      : []),
    ...(maxItems !== undefined && length > maxItems ? [fault.tooMany(path, length, maxItems)] : []),
    ...duplicateErrors(value, schema, path),
  ];
}

const keyIn = (item: Json, schema: Schema): string =>
  JSON.stringify(
    (schema['x-kubernetes-list-map-keys'] ?? []).map((key) =>
      isObject(item) ? (item[key] ?? schema.items?.properties?.[key]?.default) : null,
    ),
  );

/** Returns a function that finds the item in `old` with the same keys, for lists of type map. */
function correlate(schema: Schema, old: Json | undefined): (item: Json) => Json | undefined {
  if (!isArray(old) || schema['x-kubernetes-list-type'] !== 'map') return () => undefined;
  const byKey = new Map(old.map((item) => [keyIn(item, schema), item]));
  return (item) => byKey.get(keyIn(item, schema));
}

function duplicateErrors(value: JsonArray, schema: Schema, path: string): FieldError[] {
  if (schema['x-kubernetes-list-type'] !== 'map') return [];
  const seen = new Set<string>();
  return value.flatMap((item, index) => {
    const identity = keyIn(item, schema);
    if (!seen.has(identity)) {
      seen.add(identity);
      return [];
    }
    const keys = schema['x-kubernetes-list-map-keys'] ?? [];
    const shown = isObject(item) ? Object.fromEntries(keys.map((key) => [key, item[key]])) : item;
    return [fault.duplicate(`${path}[${index}]`, shown)];
  });
}

const missingErrors = (value: JsonObject, schema: Schema, path: string): FieldError[] =>
  (schema.required ?? [])
    .filter((key) => value[key] === undefined)
    .map((key) => fault.required(dotted(path, key)));

function countErrors(value: JsonObject, { maxProperties }: Schema, path: string): FieldError[] {
  const count = Object.keys(value).length;
  return maxProperties !== undefined && count > maxProperties
    ? [fault.tooMany(path, count, maxProperties)]
    : [];
}
