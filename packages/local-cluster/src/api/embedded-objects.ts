import { isArray, isObject, objectAt, stringAt, type Json } from '../json/json.ts';
import { required, type FieldError } from '../schema/field-error.ts';
import { valuesOf, type Schema } from '../schema/structural-schema.ts';
import { labelErrors } from './metadata.ts';

const holders = new WeakMap<Schema, boolean>();

/**
 * Returns whether the schema embeds objects at any depth. The result is cached, because most
 * schemas embed none and then need no traversal.
 */
function holdsObjects(schema: Schema): boolean {
  const known = holders.get(schema);
  if (known !== undefined) return known;
  const parts = [...Object.values(schema.properties ?? {}), schema.items, valuesOf(schema)];
  const holds =
    schema['x-kubernetes-embedded-resource'] === true ||
    parts.some((part) => part !== undefined && holdsObjects(part));
  holders.set(schema, holds);
  return holds;
}

/**
 * Returns the errors in types and metadata of objects that a custom object embeds
 * (`x-kubernetes-embedded-resource`).
 */
export function embeddedErrors(value: Json, schema: Schema, path = ''): readonly FieldError[] {
  if (!holdsObjects(schema)) return [];
  if (isArray(value)) {
    const { items } = schema;
    return items === undefined
      ? []
      : value.flatMap((item, index) => embeddedErrors(item, items, `${path}[${index}]`));
  }
  if (!isObject(value)) return [];
  const own =
    schema['x-kubernetes-embedded-resource'] === true
      ? [
          ...['apiVersion', 'kind']
            .filter((key) => (stringAt(value, key) ?? '') === '')
            .map((key) => required(`${path}.${key}`)),
          ...labelErrors(objectAt(value, 'metadata')?.['labels'], `${path}.metadata.labels`),
        ]
      : [];
  const values = valuesOf(schema);
  const inner = Object.entries(value).flatMap(([key, child]) => {
    const property = schema.properties?.[key] ?? values;
    return child === undefined || property === undefined
      ? []
      : embeddedErrors(child, property, path === '' ? key : `${path}.${key}`);
  });
  return [...own, ...inner];
}
