import type { Schema } from '../schema/structural-schema.ts';
import { builtinTypes } from './builtin-types.ts';

/** Maps of quantities: 1 and "1" are the same to Kubernetes. */
const quantityMaps: ReadonlySet<string> = new Set(['limits', 'requests', 'capacity', 'allocatable', 'allocatedResources', 'hard', 'used']);
/** `size` and the like of one quantity. */
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
  if (text.startsWith('[')) return { type: 'array', nullable: true, items: schemaOfType(text.slice(1, -1), field, reference) };
  if (text.startsWith('{')) {
    const values = quantityMaps.has(field) ? quantity : schemaOfType(text.slice(1, -1), field, reference);
    return { type: 'object', nullable: true, additionalProperties: values };
  }
  if (text === 'string' && quantities.has(field)) return quantity;
  return scalars[text] ?? reference(text);
}

/** null means absent in every field of a built-in kind, as it does to Go's decoder. */
const nullable = (schema: Schema): Schema => ({ ...schema, nullable: true });

const objectSchema = (fields: string, reference: (name: string) => Schema): Schema => {
  const parsed = fields.split(' ').filter((field) => field !== '');
  const properties: Record<string, Schema> = {};
  for (const field of parsed) {
    const colon = field.indexOf(':');
    const name = field.slice(0, colon).replace('!', '');
    // A schema that refers to itself is filled in later: it is taken as it is, not copied.
    const type = field.slice(colon + 1);
    properties[name] = schemaOfType(type, name, reference);
  }
  return { type: 'object', nullable: true, properties };
};

const resolved = new Map<string, Schema>();

/** The schema of a built-in type, its references followed: made once, and shared. Required fields are left to the kinds' own checks. */
export function builtinSchema(name: string): Schema {
  const known = resolved.get(name);
  if (known !== undefined) return known;
  // JSONSchemaProps holds itself, and anything else.
  if (name === 'V1JSONSchemaProps' || builtinTypes[name] === undefined) return nullable({ ...anything, type: 'object' });
  const schema: Schema = objectSchema(builtinTypes[name], builtinSchema);
  resolved.set(name, schema);
  return schema;
}

/** The same type for OpenAPI documents. `refer` says what to write for the types that it refers to. */
export function openApiOfBuiltin(name: string, refer: (name: string) => string): Schema {
  const schema = objectSchema(builtinTypes[name] ?? '', (other) => ({ $ref: refer(other) }));
  const requiredFields = [...(builtinTypes[name] ?? '').matchAll(/(\S+?)!:/g)].map(([, field]) => field ?? '');
  return requiredFields.length > 0 ? { ...schema, required: requiredFields } : schema;
}
