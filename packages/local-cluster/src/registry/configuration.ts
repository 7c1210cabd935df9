import type { ApiObject } from '../api/api-object.ts';
import { badRequest } from '../api/status-error.ts';
import { booleanAt, equal, objectAt, stringAt, type Json, type JsonObject } from '../json/json.ts';
import { forbiddenField, invalidValue, tooLong, type FieldError } from '../schema/field-error.ts';

/** Defaults and validation of ConfigMaps and Secrets. */

const maxBytes = 1_048_576;
const keyPattern = /^[-._a-zA-Z0-9]+$/;

function keyErrors(data: JsonObject | undefined, field: string): FieldError[] {
  return Object.keys(data ?? {}).flatMap((key) => {
    const at = `${field}[${key}]`;
    if (key.length > 253) return [invalidValue(at, key, 'must be no more than 253 characters')];
    if (key === '.' || key === '..') return [invalidValue(at, key, `must not be '${key}'`)];
    return keyPattern.test(key)
      ? []
      : [
          invalidValue(
            at,
            key,
            `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
          ),
        ];
  });
}

const bytesOf = (data: JsonObject | undefined, measure: (text: string) => number): number =>
  Object.values(data ?? {}).reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? measure(value) : 0),
    0,
  );

const textBytes = (text: string): number => Buffer.byteLength(text);
const base64Bytes = (text: string): number => Buffer.byteLength(text, 'base64');

function frozenErrors(
  object: ApiObject,
  old: ApiObject | undefined,
  fields: readonly string[],
): FieldError[] {
  if (booleanAt(old, 'immutable') !== true) return [];
  const why = 'field is immutable when `immutable` is set';
  return [
    ...(booleanAt(object, 'immutable') === true ? [] : [forbiddenField('immutable', why)]),
    ...fields
      .filter((field) => !equal(object[field], old?.[field]))
      .map((field) => forbiddenField(field, why)),
  ];
}

export function configMapErrors(map: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
  const data = objectAt(map, 'data');
  const binaryData = objectAt(map, 'binaryData');
  const bytes = bytesOf(data, textBytes) + bytesOf(binaryData, base64Bytes);
  return [
    ...keyErrors(data, 'data'),
    ...keyErrors(binaryData, 'binaryData'),
    ...(bytes > maxBytes ? [tooLong('[]', maxBytes)] : []),
    ...frozenErrors(map, old, ['data', 'binaryData']),
  ];
}

export function secretErrors(secret: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
  const data = objectAt(secret, 'data');
  const type = stringAt(secret, 'type') ?? '';
  return [
    ...keyErrors(data, 'data'),
    ...(bytesOf(data, base64Bytes) > maxBytes ? [tooLong('data', maxBytes)] : []),
    ...(old === undefined || stringAt(old, 'type') === type
      ? []
      : [invalidValue('type', type, 'field is immutable')]),
    ...frozenErrors(secret, old, ['data']),
  ];
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Converts stringData, which is write-only, to data. @throws StatusError 400 for data that are not
 * base64
 */
export function secretDefaults(secret: JsonObject): JsonObject {
  for (const value of Object.values(objectAt(secret, 'data') ?? {})) {
    if (typeof value === 'string' && !base64.test(value.replaceAll(/[\r\n]/g, '')))
      throw badRequest(
        `Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0`,
      );
  }
  const plain = Object.entries(objectAt(secret, 'stringData') ?? {}).flatMap(
    ([key, value]): [string, Json][] =>
      typeof value !== 'string' ? [] : [[key, Buffer.from(value).toString('base64')]],
  );
  const { stringData: _, ...rest } = secret;
  return {
    ...rest,
    type: secret['type'] ?? 'Opaque',
    ...(plain.length > 0
      ? { data: { ...objectAt(secret, 'data'), ...Object.fromEntries(plain) } }
      : {}),
  };
}
