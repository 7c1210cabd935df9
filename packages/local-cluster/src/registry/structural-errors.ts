import { rulesOf } from '../schema/cel-rules.ts';
import { forbiddenField, invalidValue, required, type FieldError } from '../schema/field-error.ts';
import { valuesOf, type Schema } from '../schema/structural-schema.ts';
import { validate } from '../schema/validate.ts';

/**
 * Returns the reasons why a schema is not structural and thus cannot be served (apiextensions
 * `schema/validation.go`), and its invalid rules, patterns and defaults.
 */
export function structuralErrors(schema: Schema, path: string): readonly FieldError[] {
  return [...nodeErrors(schema, path), ...childrenErrors(schema, path)];
}

function nodeErrors(schema: Schema, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const isIntOrString = schema['x-kubernetes-int-or-string'] === true;
  if (schema.type === undefined && !isOpen && !isIntOrString)
    errors.push(required(`${path}.type`, 'must not be empty for specified object fields'));
  if (schema.type === 'array' && schema.items === undefined)
    errors.push(required(`${path}.items`, 'must be specified'));
  if (schema.properties !== undefined && valuesOf(schema) !== undefined)
    errors.push(
      forbiddenField(
        `${path}.additionalProperties`,
        'additionalProperties and properties are mutual exclusive',
      ),
    );
  if (
    schema['x-kubernetes-list-type'] === 'map' &&
    (schema['x-kubernetes-list-map-keys'] ?? []).length === 0
  )
    errors.push(
      required(
        `${path}.x-kubernetes-list-map-keys`,
        'must not be empty if x-kubernetes-list-type is map',
      ),
    );
  return [
    ...errors,
    ...ruleErrors(schema, path),
    ...patternErrors(schema, path),
    ...defaultErrors(schema, path),
  ];
}

const ruleErrors = (schema: Schema, path: string): FieldError[] =>
  (schema['x-kubernetes-validations'] ?? []).flatMap((rule, index) => {
    try {
      rulesOf({ 'x-kubernetes-validations': [rule] });
      return [];
    } catch (error) {
      const field = `${path}.x-kubernetes-validations[${index}].rule`;
      return [invalidValue(field, rule.rule, `compilation failed: ${String(error)}`)];
    }
  });

function patternErrors({ pattern }: Schema, path: string): FieldError[] {
  try {
    if (pattern !== undefined) new RegExp(pattern);
    return [];
  } catch {
    return [invalidValue(`${path}.pattern`, pattern, 'must be a valid regular expression')];
  }
}

/** A default has to satisfy its own schema. */
function defaultErrors(schema: Schema, path: string): FieldError[] {
  if (schema.default === undefined) return [];
  return validate(schema.default, schema, `${path}.default`).map((error) => ({
    ...error,
    field: `${path}.default`,
  }));
}

function childrenErrors(schema: Schema, path: string): readonly FieldError[] {
  const values = valuesOf(schema);
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([key, property]) =>
      structuralErrors(property, `${path}.properties[${key}]`),
    ),
    ...(schema.items === undefined ? [] : structuralErrors(schema.items, `${path}.items`)),
    ...(values === undefined ? [] : structuralErrors(values, `${path}.additionalProperties`)),
  ];
}
