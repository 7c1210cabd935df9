import {
  arrayAt,
  isObject,
  numberAt,
  objectAt,
  stringAt,
  type Json,
  without,
  type JsonObject,
} from '../json/json.ts';
import type { DeleteOptions } from './deletion.ts';
import { StatusError, badRequest, invalid } from './status-error.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { applyDefaults, prune } from '../schema/structural-schema.ts';
import { validate } from '../schema/validate.ts';
import { dropNulls } from './metadata.ts';
import { invalidValue } from '../schema/field-error.ts';

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

interface DecodeOptions {
  readonly validation: FieldValidation;
  readonly warn: (text: string) => void;
}

export function unknownFields(body: JsonObject, resource: ApiResource): readonly string[] {
  const unknown: string[] = [];
  prune(body, resource.schema, unknown);
  return unknown;
}

/**
 * Converts a request body into an object of the kind: removes unknown fields and sets defaults. For
 * a custom resource, the values are validated later, by `checkObject`.
 * @throws StatusError 400 for another kind, or for unknown fields if `validation` is Strict
 */
export function decode(body: Json, resource: ApiResource, options: DecodeOptions): JsonObject {
  if (!isObject(body))
    throw badRequest(`couldn't get version/kind; json parse error: expected an object`);
  const apiVersion = apiVersionOf(resource);
  const sentVersion = stringAt(body, 'apiVersion') ?? apiVersion;
  const sentKind = stringAt(body, 'kind') ?? resource.kind;
  if (!resource.builtin) checkCustomType(body, resource);
  else if (sentVersion !== apiVersion || sentKind !== resource.kind) {
    throw badRequest(
      `${sentKind} in version ${JSON.stringify(sentVersion)} cannot be handled as a ${resource.kind}: the API version in the data (${sentVersion}, Kind=${sentKind}) does not match the expected API version (${apiVersion}, Kind=${resource.kind})`,
    );
  }
  const typed = { ...body, apiVersion, kind: resource.kind };
  const unknown: string[] = [];
  const pruned = prune(typed, resource.schema, unknown);
  const texts = unknown.map((field) => `unknown field ${JSON.stringify(field)}`);
  if (texts.length > 0) reportFields(texts, resource, options);
  const known = isObject(pruned) ? pruned : typed;
  const object = resource.builtin ? decodeBuiltin(known, resource) : decodeCustom(known, resource);
  return resource.defaults?.(object) ?? object;
}

/** Throws unless the body names the apiVersion and the kind of the custom resource. */
function checkCustomType(body: JsonObject, resource: ApiResource): void {
  const sentVersion = stringAt(body, 'apiVersion') ?? '';
  const sentKind = stringAt(body, 'kind') ?? '';
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

/** Kinds of options that apimachinery `metav1/validation` names in error messages. */

type Kind = 'CreateOptions' | 'UpdateOptions' | 'PatchOptions' | 'DeleteOptions';

const invalidOption = (kind: Kind, text: string): StatusError =>
  new StatusError(422, 'Invalid', `${kind}.meta.k8s.io "" is invalid: ${text}`);

export const isTrue = (text: string | null): boolean =>
  text === 'true' || text === '1' || text === '';

const writeKinds: Readonly<Record<string, Kind>> = {
  POST: 'CreateOptions',
  PUT: 'UpdateOptions',
  PATCH: 'PatchOptions',
};
const kindOf = (method: string): Kind => writeKinds[method] ?? 'DeleteOptions';

function dryRunOf(values: readonly string[], kind: Kind): boolean {
  const given = values.filter((value) => value !== '');
  if (given.every((value) => value === 'All')) return given.length > 0;
  throw invalidOption(
    kind,
    `dryRun: Unsupported value: ${JSON.stringify(given)}: supported values: "All"`,
  );
}

/** @throws StatusError 422 for an invalid value */
export const writeOptions = (
  query: URLSearchParams,
  method: string,
): { readonly dryRun: boolean } => ({ dryRun: dryRunOf(query.getAll('dryRun'), kindOf(method)) });

/** @throws StatusError 422 for an invalid value */
export function validationOf(query: URLSearchParams, method: string): FieldValidation {
  const value = query.get('fieldValidation');
  if (value === null || value === '') return 'Warn';
  if (value === 'Strict' || value === 'Warn' || value === 'Ignore') return value;
  throw invalidOption(
    kindOf(method),
    `fieldValidation: Unsupported value: ${JSON.stringify(value)}: supported values: "", "Ignore", "Strict", "Warn"`,
  );
}

/** Returns the options in the body of a deletion. `dryRun` may also be a query parameter. */
export function deleteOptions(query: URLSearchParams, sent: Json): DeleteOptions {
  const preconditions = objectAt(sent, 'preconditions');
  const uid = stringAt(preconditions, 'uid');
  const resourceVersion = stringAt(preconditions, 'resourceVersion');
  const grace = numberAt(sent, 'gracePeriodSeconds');
  const policy = stringAt(sent, 'propagationPolicy') ?? 'Background';
  if (policy !== 'Background') {
    throw invalidOption(
      'DeleteOptions',
      `propagationPolicy: Unsupported value: ${JSON.stringify(policy)}: supported values: "Background"`,
    );
  }
  return {
    dryRun: dryRunOf(
      [...arrayAt(sent, 'dryRun').map(String), ...query.getAll('dryRun')],
      'DeleteOptions',
    ),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
  };
}
