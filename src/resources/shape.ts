import type { z } from 'zod';
import { jsonSchemaOf } from './schema.ts';

type Check = (value: unknown) => boolean;
type JsonSchema = z.core.JSONSchema.BaseSchema;

/**
 * Whether a value is what a schema takes. The check reads the JSON schema that the CRD has too, and
 * is several times as fast as zod because it builds no result: caches call it for every event of a
 * watch. The first call makes it, which costs some milliseconds.
 */
export function shapeOf(schema: z.ZodType): Check {
  let check: Check | undefined;
  return (value) => (check ??= checkOf(jsonSchemaOf(schema)))(value);
}

/** Throws for a type that no kind of this group has. Rules in CEL are the API server's own. */
function checkOf(schema: JsonSchema | boolean): Check {
  if (typeof schema === 'boolean') return () => schema;
  if (schema.enum !== undefined) {
    const values = new Set<unknown>(schema.enum);
    return (value) => values.has(value);
  }
  switch (schema.type) {
    case 'object':
      return objectCheck(schema);
    case 'array':
      return arrayCheck(schema);
    case 'string':
      return stringCheck(schema);
    case 'integer': {
      const { minimum = -Infinity, maximum = Infinity } = schema;
      return (value) =>
        Number.isSafeInteger(value) && Number(value) >= minimum && Number(value) <= maximum;
    }
    case 'boolean':
      return (value) => typeof value === 'boolean';
    default:
      throw new Error(`There is no check for the schema ${JSON.stringify(schema)}.`);
  }
}

function objectCheck(schema: JsonSchema): Check {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {}).map(([key, field]) => ({
    key,
    isRequired: required.has(key),
    check: checkOf(field),
  }));
  const { additionalProperties: values } = schema;
  const isOther = typeof values === 'object' ? checkOf(values) : undefined;
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const object = value as Readonly<Record<string, unknown>>;
    for (const { key, isRequired, check } of fields) {
      const field = object[key];
      if (field === undefined ? isRequired : !check(field)) return false;
    }
    return isOther === undefined || Object.values(object).every(isOther);
  };
}

function arrayCheck({ items, minItems = 0, maxItems = Infinity }: JsonSchema): Check {
  if (items === undefined || Array.isArray(items)) throw new Error('A list has items of one kind.');
  const isItem = checkOf(items);
  return (value) =>
    Array.isArray(value) &&
    value.length >= minItems &&
    value.length <= maxItems &&
    value.every(isItem);
}

function stringCheck({ minLength = 0, maxLength = Infinity, pattern = '' }: JsonSchema): Check {
  const expression = new RegExp(pattern);
  return (value) =>
    typeof value === 'string' &&
    hasLength(value, minLength, maxLength) &&
    (pattern === '' || expression.test(value));
}

/**
 * In characters, as zod and the API server count: one outside of the basic plane is two units of
 * UTF-16.
 */
function hasLength(text: string, min: number, max: number): boolean {
  const { length: units } = text;
  if (units < min) return false;
  if (units <= max && units >= min * 2) return true;
  let characters = 0;
  for (const _character of text) characters += 1;
  return characters >= min && characters <= max;
}
