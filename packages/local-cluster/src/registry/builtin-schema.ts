import type { Schema } from '../schema/structural-schema.ts';
import { builtinTypes } from './builtin-types.ts';

/** Fields with a map of quantities, for which Kubernetes treats 1 and "1" alike. */
const quantityMaps: ReadonlySet<string> = new Set([
  'limits',
  'requests',
  'capacity',
  'allocatable',
  'allocatedResources',
  'hard',
  'used',
]);
const quantities: ReadonlySet<string> = new Set(['sizeLimit', 'divisor']);
const anything: Schema = { 'x-kubernetes-preserve-unknown-fields': true };
/** A string or a number. The `defaults` or `validate` of the kind check that it is a quantity. */
const quantity = anything;

const scalars: Readonly<Record<string, Schema>> = {
  string: { type: 'string' },
  boolean: { type: 'boolean' },
  integer: { type: 'integer' },
  number: { type: 'number' },
  time: { type: 'string', format: 'date-time' },
  IntOrString: { 'x-kubernetes-int-or-string': true },
  any: anything,
};

type Reference = (name: string) => Schema;

function schemaOfType(text: string, field: string, reference: Reference): Schema {
  const inner = text.slice(1, -1);
  if (text.startsWith('[')) return { type: 'array', items: schemaOfType(inner, field, reference) };
  if (text.startsWith('{'))
    return {
      type: 'object',
      additionalProperties: quantityMaps.has(field)
        ? quantity
        : schemaOfType(inner, field, reference),
    };
  if (text === 'string' && quantities.has(field)) return quantity;
  return scalars[text] ?? reference(text);
}

function objectSchema(name: string, reference: Reference) {
  const fields = [...(builtinTypes[name] ?? '').matchAll(/([^ ]+?)(!?):([^ ]+)/g)];
  return {
    type: 'object',
    properties: Object.fromEntries(
      fields.map(([, field = '', , type = '']) => [field, schemaOfType(type, field, reference)]),
    ),
    required: fields.flatMap(([, field = '', mark]) => (mark === '!' ? [field] : [])),
  };
}

const resolved = new Map<string, Schema>();

/** Returns a built-in type's shared schema, without required fields: `validate` checks these. */
export function builtinSchema(name: string): Schema {
  const known = resolved.get(name);
  if (known !== undefined) return known;
  const { type, properties } = objectSchema(name, builtinSchema);
  const schema = { type, properties };
  resolved.set(name, schema);
  return schema;
}

/** Returns a built-in type's OpenAPI schema. `refer` returns the reference to another type. */
export function openApiOfBuiltin(name: string, refer: (name: string) => string): Schema {
  const { required, ...schema } = objectSchema(name, (other) => ({ $ref: refer(other) }));
  return required.length > 0 ? { ...schema, required } : schema;
}
