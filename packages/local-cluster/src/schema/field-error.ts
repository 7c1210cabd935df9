import type { Json } from '../json/json.ts';

/** An error of one field, with the messages of apimachinery `field.Error`. */
export interface FieldError {
  /** Path such as `spec.containers[0].name`; '' for the object itself. */
  readonly field: string;
  readonly reason: string;
  readonly message: string;
}

const shown = (value: Json | undefined): string => {
  if (value === undefined) return 'null';
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? '"array"' : '"object"';
  return JSON.stringify(value);
};

export const required = (field: string, detail = ''): FieldError => ({
  field,
  reason: 'FieldValueRequired',
  message: detail === '' ? 'Required value' : `Required value: ${detail}`,
});
export const invalidValue = (
  field: string,
  value: Json | undefined,
  detail: string,
): FieldError => ({
  field,
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${shown(value)}: ${detail}`,
});
export const typeInvalid = (
  field: string,
  value: Json | undefined,
  detail: string,
): FieldError => ({
  field,
  reason: 'FieldValueTypeInvalid',
  message: `Invalid value: ${shown(value)}: ${detail}`,
});
export const notSupported = (
  field: string,
  value: Json,
  supported: readonly string[],
): FieldError => ({
  field,
  reason: 'FieldValueNotSupported',
  message: `Unsupported value: ${shown(value)}: supported values: ${supported.map((text) => JSON.stringify(text)).join(', ')}`,
});
export const duplicate = (field: string, value: Json): FieldError => ({
  field,
  reason: 'FieldValueDuplicate',
  message: `Duplicate value: ${typeof value === 'object' ? JSON.stringify(value) : shown(value)}`,
});
export const notFoundField = (field: string, value: Json): FieldError => ({
  field,
  reason: 'FieldValueNotFound',
  message: `Not found: ${shown(value)}`,
});
export const tooLong = (field: string, max: number): FieldError => ({
  field,
  reason: 'FieldValueTooLong',
  message: `Too long: may not be more than ${max} bytes`,
});
export const tooMany = (field: string, count: number, max: number): FieldError => ({
  field,
  reason: 'FieldValueTooMany',
  message: `Too many: ${count}: must have at most ${max} items`,
});
export const forbiddenField = (field: string, detail: string): FieldError => ({
  field,
  reason: 'FieldValueForbidden',
  message: `Forbidden: ${detail}`,
});
