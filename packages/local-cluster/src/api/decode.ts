import { isObject, objectAt, stringAt, without, type Json, type JsonObject } from '../json/json.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { applyDefaults } from '../schema/apply-defaults.ts';
import { prune } from '../schema/prune.ts';
import { validate } from '../schema/validate.ts';
import { dropNulls } from './metadata.ts';
import { invalidValue } from '../schema/field-error.ts';
import { badRequest, invalid } from './status-error.ts';

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface DecodeOptions {
  readonly validation: FieldValidation;
  readonly warn: (text: string) => void;
  /** Paths of keys that the body contains twice. */
  readonly duplicates?: readonly string[];
}

/** Returns the paths of the fields that the kind does not define. */
export function unknownFields(body: JsonObject, resource: ApiResource): readonly string[] {
  const unknown: string[] = [];
  prune(body, resource.schema, unknown);
  return unknown;
}

/**
 * Decodes a body into an object of the kind: unknown fields are dropped and defaults applied. The
 * schema of a custom resource is checked later, when the object is complete.
 * @throws StatusError 400 when the body is of another kind, or has unknown fields and validation is
 * Strict
 */
export function decode(body: Json, resource: ApiResource, options: DecodeOptions): JsonObject {
  if (!isObject(body))
    throw badRequest(`couldn't get version/kind; json parse error: expected an object`);
  const apiVersion = apiVersionOf(resource);
  const sentVersion = stringAt(body, 'apiVersion') ?? (resource.builtin ? apiVersion : '');
  const sentKind = stringAt(body, 'kind') ?? (resource.builtin ? resource.kind : '');
  if (!resource.builtin) checkCustomType(sentVersion, sentKind, resource, body);
  else if (sentVersion !== apiVersion || sentKind !== resource.kind) {
    throw badRequest(
      `${sentKind} in version ${JSON.stringify(sentVersion)} cannot be handled as a ${resource.kind}: the API version in the data (${sentVersion}, Kind=${sentKind}) does not match the expected API version (${apiVersion}, Kind=${resource.kind})`,
    );
  }
  const typed = { ...body, apiVersion, kind: resource.kind };
  const unknown: string[] = [];
  const pruned = prune(typed, resource.schema, unknown);
  const { duplicates = [] } = options;
  const texts = [
    ...duplicates.map((field) => `duplicate field ${JSON.stringify(field)}`),
    ...unknown.map((field) => `unknown field ${JSON.stringify(field)}`),
  ];
  if (texts.length > 0) reportFields(texts, resource, options);
  const known = isObject(pruned) ? pruned : typed;
  const object = resource.builtin ? decodeBuiltin(known, resource) : decodeCustom(known, resource);
  return resource.defaults?.(object) ?? object;
}

/** A body of a custom resource has to name its kind in every request. */
function checkCustomType(
  sentVersion: string,
  sentKind: string,
  resource: ApiResource,
  body: JsonObject,
): void {
  const missing = [
    ...(sentKind === '' ? ['Kind'] : []),
    ...(sentVersion === '' ? ['apiVersion'] : []),
  ];
  if (missing.length > 0) {
    throw badRequest(
      `the object provided is unrecognized (must be of type ${resource.kind}): Object '${missing.join(', ')}' is missing in '${JSON.stringify(body).slice(0, 256)}'`,
    );
  }
  const apiVersion = apiVersionOf(resource);
  if (sentVersion !== apiVersion)
    throw badRequest(
      `the API version in the data (${sentVersion}) does not match the expected API version (${apiVersion})`,
    );
  if (sentKind === resource.kind) return;
  const name = stringAt(objectAt(body, 'metadata'), 'name') ?? '';
  throw invalid(resource, name, [invalidValue('kind', sentKind, `must be ${resource.kind}`)]);
}

function reportFields(
  texts: readonly string[],
  resource: ApiResource,
  { validation, warn }: DecodeOptions,
): void {
  if (validation === 'Warn') texts.forEach(warn);
  if (validation !== 'Strict') return;
  throw badRequest(
    `${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: strict decoding error: ${texts.join(', ')}`,
  );
}

function decodeBuiltin(object: JsonObject, resource: ApiResource): JsonObject {
  const complete = dropNulls(object);
  const [error] = validate(complete, resource.schema);
  if (error !== undefined) {
    throw badRequest(
      `${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: json: cannot unmarshal ${error.field}: ${error.message}`,
    );
  }
  return isObject(complete) ? complete : object;
}

function decodeCustom(object: JsonObject, resource: ApiResource): JsonObject {
  const metadata = dropNulls(objectAt(object, 'metadata') ?? {});
  const [error] = validate(metadata, resource.schema.properties?.['metadata'] ?? {}, 'metadata');
  if (error !== undefined)
    throw badRequest(
      `${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: ${error.field}: ${error.message}`,
    );
  const defaulted = applyDefaults(without(object, 'metadata'), resource.schema);
  return { ...(isObject(defaulted) ? defaulted : object), metadata };
}
