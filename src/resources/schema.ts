import { z } from 'zod';

/**
 * Functions that build the schemas of custom resources. The CRDs contain the fields of `meta`
 * unchanged (`x-kubernetes-*` extensions and descriptions), see crd.ts.
 */

/** The JSON schema of what clients send, in which fields with defaults are optional. */
export const jsonSchemaOf = (schema: z.ZodType) =>
  z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input', unrepresentable: 'any' });

/** Gives a field the description that `kubectl explain` shows. */
export const described = <T extends z.ZodType>(schema: T, description: string): T =>
  schema.meta({ description });

/** Makes a field optional, with the description that `kubectl explain` shows. */
export const optional = <T extends z.ZodType>(schema: T, description: string): z.ZodOptional<T> =>
  schema.optional().meta({ description });

export const text = (maxLength: number) => z.string().max(maxLength);

/** An integer of at least 0. */
export const count = () => z.int().min(0);

/** A DNS-1123 subdomain: the name of a custom resource, pod or PersistentVolumeClaim. */
export const objectName = () =>
  z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);

/** The owner of a resource: a user, team or service account of the platform, not of Kubernetes. */
export const ownerName = () =>
  z
    .string()
    .min(1)
    .max(128)
    .regex(/^[A-Za-z0-9]([-A-Za-z0-9_.@+:]*[A-Za-z0-9])?$/);

export const noneOrOwnerName = () =>
  z
    .string()
    .max(128)
    .regex(/^([A-Za-z0-9]([-A-Za-z0-9_.@+:]*[A-Za-z0-9])?)?$/);

/** An RFC 3339 time. Only Kubernetes validates it: by default, zod permits only the offset `Z`. */
export const timestamp = () => text(40).meta({ format: 'date-time' });

export const observedGeneration = () =>
  optional(count(), 'Generation of the spec that the status describes. Written by the operator.');

/** A list that Kubernetes treats as a map with this key (server-side apply, no duplicates). */
export const listMap = (key: string) => ({
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': [key],
});

interface ValidationRule {
  readonly rule: string;
  readonly message: string;
  readonly fieldPath?: string;
}

export const validations = (...rules: ValidationRule[]) => ({ 'x-kubernetes-validations': rules });

/** CEL rules for fields that never change, not even from absent to present. */
export const immutable = (fields: {
  readonly required?: readonly string[];
  readonly optional?: readonly string[];
}): ValidationRule[] => [
  ...(fields.required ?? []).map((field) => ({
    rule: `self.${field} == oldSelf.${field}`,
    message: `${field} is immutable`,
    fieldPath: `.${field}`,
  })),
  // `fieldPath` must name a field of the schema. An object need not have that field.
  ...(fields.optional ?? []).map((field) => ({
    rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
    message: `${field} is immutable`,
    fieldPath: `.${field}`,
  })),
];

/**
 * CEL rules for an owner that changes only along the lock of a handover. `initial` is a further
 * condition under which the owner may change.
 */
export const handedOver = (initial = ''): ValidationRule[] => [
  {
    rule: `${initial}self.owner == oldSelf.owner || (has(oldSelf.handover) && self.owner == oldSelf.handover.to)`,
    message: 'owner is immutable, except along a handover',
    fieldPath: '.owner',
  },
  {
    rule: '!has(oldSelf.handover) || !has(self.handover) || self.handover == oldSelf.handover',
    message: 'handover is immutable until the operator removes it',
    fieldPath: '.handover',
  },
];

/** The lock of an object that moves to another owner. */
export const handoverLock = () =>
  optional(
    z.object({
      name: described(objectName(), 'Name of the Handover.'),
      to: described(ownerName(), 'The new owner.'),
    }),
    'The move to another owner that is under way. Written and removed by the operator; while it is present, the owner changes nothing. Absent: none.',
  );

/** The number of handovers of an object. */
export const handoverCount = (what: string) =>
  optional(
    count(),
    `Number of changes of the owner of the ${what}. Written by the operator; absent: none.`,
  );

/** CEL rule for that number. `given` is a further condition under which a change of owner counts. */
export const countsHandovers = (given = ''): ValidationRule => ({
  rule: `(has(self.handovers) ? self.handovers : 0) == (has(oldSelf.handovers) ? oldSelf.handovers : 0) + (${given}self.owner != oldSelf.owner ? 1 : 0)`,
  message: 'handovers grows by one with each change of the owner',
  fieldPath: '.handovers',
});

type Check = (value: unknown) => boolean;
type JsonSchema = z.core.JSONSchema.BaseSchema;

/**
 * Returns a function that says whether a value matches a schema. The function uses the JSON schema
 * of the CRD, and is several times as fast as zod, because it builds no result: caches call it for
 * every event of a watch. The first call compiles the schema, which takes some milliseconds.
 */
export function shapeOf(schema: z.ZodType): Check {
  let check: Check | undefined;
  return (value) => (check ??= checkOf(jsonSchemaOf(schema)))(value);
}

/** Throws for a type that no CRD of this group uses. Only the API server evaluates CEL rules. */
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
    case 'number': {
      const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum } = schema;
      // A boolean, as OpenAPI 3.0 has it.
      const isAbove = exclusiveMinimum
        ? (value: number) => value > minimum
        : (value: number) => value >= minimum;
      return (value) => typeof value === 'number' && isAbove(value) && value <= maximum;
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

/** Counts code points, as zod and the API server do, instead of UTF-16 code units. */
function hasLength(text: string, min: number, max: number): boolean {
  const { length: units } = text;
  if (units < min) return false;
  if (units <= max && units >= min * 2) return true;
  let characters = 0;
  for (const _character of text) characters += 1;
  return characters >= min && characters <= max;
}
