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
/** Fields with a single quantity, such as `size`. */
const quantities: ReadonlySet<string> = new Set(['sizeLimit', 'divisor']);
const intOrString: Schema = { 'x-kubernetes-int-or-string': true };
const quantity: Schema = { anyOf: [{ type: 'number' }, { type: 'string' }] };
const anything: Schema = { 'x-kubernetes-preserve-unknown-fields': true };

const scalars: Readonly<Record<string, Schema>> = {
  string: { type: 'string' },
  boolean: { type: 'boolean' },
  integer: { type: 'integer' },
  number: { type: 'number' },
  time: { type: 'string', format: 'date-time', nullable: true },
  IntOrString: intOrString,
  any: anything,
};

function schemaOfType(text: string, field: string, reference: (name: string) => Schema): Schema {
  if (text.startsWith('['))
    return {
      type: 'array',
      nullable: true,
      items: schemaOfType(text.slice(1, -1), field, reference),
    };
  if (text.startsWith('{')) {
    const values = quantityMaps.has(field)
      ? quantity
      : schemaOfType(text.slice(1, -1), field, reference);
    return { type: 'object', nullable: true, additionalProperties: values };
  }
  if (text === 'string' && quantities.has(field)) return quantity;
  return scalars[text] ?? reference(text);
}

/** Every field of a built-in kind accepts null as absent, as the decoder of Go does. */
const nullable = (schema: Schema): Schema => ({ ...schema, nullable: true });

const objectSchema = (fields: string, reference: (name: string) => Schema): Schema => {
  const parsed = fields.split(' ').filter((field) => field !== '');
  const properties: Record<string, Schema> = {};
  for (const field of parsed) {
    const colon = field.indexOf(':');
    const name = field.slice(0, colon).replace('!', '');
    // The schema of a recursive type is completed later, so it is referenced and not copied.
    const type = field.slice(colon + 1);
    properties[name] = schemaOfType(type, name, reference);
  }
  return { type: 'object', nullable: true, properties };
};

const resolved = new Map<string, Schema>();

/**
 * Returns the schema of a built-in type with resolved references, created once and shared. The
 * kinds check required fields themselves.
 */
export function builtinSchema(name: string): Schema {
  const known = resolved.get(name);
  if (known !== undefined) return known;
  // JSONSchemaProps contains itself and arbitrary values.
  if (name === 'V1JSONSchemaProps' || builtinTypes[name] === undefined)
    return nullable({ ...anything, type: 'object' });
  const schema: Schema = objectSchema(builtinTypes[name], builtinSchema);
  resolved.set(name, schema);
  return schema;
}

/**
 * Returns the schema of a built-in type for OpenAPI documents. `refer` returns the reference to
 * another type.
 */
export function openApiOfBuiltin(name: string, refer: (name: string) => string): Schema {
  const schema = objectSchema(builtinTypes[name] ?? '', (other) => ({ $ref: refer(other) }));
  const requiredFields = [...(builtinTypes[name] ?? '').matchAll(/(\S+?)!:/g)].map(
    ([, field]) => field ?? '',
  );
  return requiredFields.length > 0 ? { ...schema, required: requiredFields } : schema;
}
