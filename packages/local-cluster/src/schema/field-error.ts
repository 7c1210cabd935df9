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

const errorOf =
  <A extends readonly unknown[]>(reason: string, messageOf: (...details: A) => string) =>
  (field: string, ...details: A): FieldError => ({
    field,
    reason: `FieldValue${reason}`,
    message: messageOf(...details),
  });
const invalidText = (value: Json | undefined, detail: string): string =>
  `Invalid value: ${shown(value)}: ${detail}`;

export const required = errorOf('Required', (detail: string | undefined = '') =>
  detail === '' ? 'Required value' : `Required value: ${detail}`,
);
export const invalidValue = errorOf('Invalid', invalidText);
export const typeInvalid = errorOf('TypeInvalid', invalidText);
export const notSupported = errorOf(
  'NotSupported',
  (value: Json, supported: readonly string[]) =>
    `Unsupported value: ${shown(value)}: supported values: ${supported.map((text) => JSON.stringify(text)).join(', ')}`,
);
export const duplicate = errorOf(
  'Duplicate',
  (value: Json) =>
    `Duplicate value: ${typeof value === 'object' ? JSON.stringify(value) : shown(value)}`,
);
export const notFoundField = errorOf('NotFound', (value: Json) => `Not found: ${shown(value)}`);
export const tooLong = errorOf(
  'TooLong',
  (max: number) => `Too long: may not be more than ${max} bytes`,
);
export const tooMany = errorOf(
  'TooMany',
  (count: number, max: number) => `Too many: ${count}: must have at most ${max} items`,
);
export const forbiddenField = errorOf('Forbidden', (detail: string) => `Forbidden: ${detail}`);
