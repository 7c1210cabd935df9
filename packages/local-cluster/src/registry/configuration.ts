import type * as core from '@conversation-operator/kube/core';
import { badRequest } from '../api/status-error.ts';
import { equal } from '../json/json.ts';
import { forbiddenField, invalidValue, tooLong, type FieldError } from '../schema/field-error.ts';
import type { Decoded } from './api-resource.ts';

/** Defaults and validation of ConfigMaps and Secrets. */

type Secret = Decoded<core.Secret>;
type ConfigMap = Decoded<core.ConfigMap>;
type Data = Secret['data'];

const maxBytes = 1_048_576;
const keyPattern = /^[-._a-zA-Z0-9]+$/;

function keyErrors(data: Data, field: string): FieldError[] {
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

const bytesOf = (data: Data, encoding: 'utf8' | 'base64'): number =>
  Object.values(data ?? {}).reduce<number>(
    (sum, value = '') => sum + Buffer.byteLength(value, encoding),
    0,
  );

function frozenErrors(object: ConfigMap, old: ConfigMap | undefined): FieldError[] {
  if (old?.immutable !== true) return [];
  const why = 'field is immutable when `immutable` is set';
  return [
    ...(object.immutable === true ? [] : [forbiddenField('immutable', why)]),
    ...(['data', 'binaryData'] as const)
      .filter((field) => !equal(object[field], old[field]))
      .map((field) => forbiddenField(field, why)),
  ];
}

export function configMapErrors(map: ConfigMap, old: ConfigMap | undefined): readonly FieldError[] {
  const { data, binaryData } = map;
  const bytes = bytesOf(data, 'utf8') + bytesOf(binaryData, 'base64');
  return [
    ...keyErrors(data, 'data'),
    ...keyErrors(binaryData, 'binaryData'),
    ...(bytes > maxBytes ? [tooLong('[]', maxBytes)] : []),
    ...frozenErrors(map, old),
  ];
}

export function secretErrors(secret: Secret, old: Secret | undefined): readonly FieldError[] {
  const { data, type } = secret;
  return [
    ...keyErrors(data, 'data'),
    ...(bytesOf(data, 'base64') > maxBytes ? [tooLong('data', maxBytes)] : []),
    ...(old === undefined || old.type === type
      ? []
      : [invalidValue('type', type, 'field is immutable')]),
    ...frozenErrors(secret, old),
  ];
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Converts stringData, which is write-only, to data. @throws StatusError 400 for data that are not
 * base64
 */
export function secretDefaults({ stringData = {}, ...secret }: Secret): Secret {
  for (const value of Object.values(secret.data ?? {})) {
    if (!base64.test((value ?? '').replaceAll(/[\r\n]/g, '')))
      throw badRequest(
        `Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0`,
      );
  }
  const plain = Object.entries(stringData).map(([key, value = '']): [string, string] => [
    key,
    Buffer.from(value).toString('base64'),
  ]);
  return {
    ...secret,
    type: secret.type ?? 'Opaque',
    ...(plain.length > 0 ? { data: { ...secret.data, ...Object.fromEntries(plain) } } : {}),
  };
}
