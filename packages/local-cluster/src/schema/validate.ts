import { isIPv4, isIPv6 } from 'node:net';
import { labelErrors } from '../api/metadata.ts';
import {
  equal,
  isArray,
  isObject,
  objectAt,
  stringAt,
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
  if (value === null && schema.nullable === true) return [];
  if (schema['x-kubernetes-int-or-string'] === true) {
    if (typeof value === 'string' || Number.isInteger(value))
      return scalarErrors(value, schema, path);
    return [wrongType(path, value, 'integer,string')];
  }
  if (schema.type !== undefined && !hasType(value, schema.type))
    return [wrongType(path, value, schema.type)];
  return [
    ...scalarErrors(value, schema, path),
    ...junctorErrors(value, schema, path),
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
/** Compiled pattern; what RE2 (of Kubernetes) and this engine support is the same. */
function patternOf(source: string): RegExp {
  const known = patterns.get(source);
  if (known !== undefined) return known;
  const pattern = new RegExp(source);
  if (patterns.size > 1000) patterns.clear();
  patterns.set(source, pattern);
  return pattern;
}

const dateTime = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;
/** Formats that are checked; any other format accepts any text. */
const formats: Readonly<Record<string, (text: string) => boolean>> = {
  'date-time': (text) => dateTime.test(text) && !Number.isNaN(Date.parse(text)),
  ipv4: isIPv4,
  ipv6: isIPv6,
  byte: (text) => /^[A-Za-z0-9+/\s]*={0,2}$/.test(text),
};

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
  if (format !== undefined && formats[format]?.(value) === false) {
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

/** A function that finds the old item of an item; only lists of type map correlate items. */
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

function missingErrors(value: JsonObject, schema: Schema, path: string): FieldError[] {
  const missing = (schema.required ?? []).filter((key) => value[key] === undefined);
  const errors = missing.map((key) => fault.required(dotted(path, key)));
  if (schema['x-kubernetes-embedded-resource'] !== true) return errors;
  const untyped = ['apiVersion', 'kind'].filter((key) => (stringAt(value, key) ?? '') === '');
  return [
    ...errors,
    ...untyped.map((key) => fault.required(dotted(path, key))),
    ...labelErrors(objectAt(value, 'metadata')?.['labels'], dotted(path, 'metadata.labels')),
  ];
}

function countErrors(value: JsonObject, schema: Schema, path: string): FieldError[] {
  const { minProperties, maxProperties } = schema;
  const count = Object.keys(value).length;
  const text = `${path} in body should have at least ${minProperties ?? 0} properties`;
  return [
    ...(maxProperties !== undefined && count > maxProperties
      ? [fault.tooMany(path, count, maxProperties)]
      : []),
    ...(minProperties !== undefined && count < minProperties
      ? [fault.invalidValue(path, value, text)]
      : []),
  ];
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
