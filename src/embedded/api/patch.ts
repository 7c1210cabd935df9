import jsonPatch, { type Operation } from 'fast-json-patch';
import { parse as parseYaml } from 'yaml';
import { isArray, isObject, type Json, type JsonObject } from '../json/json.ts';
import { mergeObject } from '../json/merge-patch.ts';
import { strategicMergePatch } from '../json/strategic-merge.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import { badRequest, StatusError, unsupportedMediaType } from './status-error.ts';

export const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;

export function parseJson(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw badRequest(`error decoding the body: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export function parseYamlBody(text: string): Json {
  try {
    return parseYaml(text, { maxAliasCount: 100 }) as Json;
  } catch (error) {
    throw badRequest(`error decoding the body: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The object after a patch other than apply. @throws StatusError 415 for a type that the kind does not take, 422 for a JSON patch that does not fit */
export function patched(object: JsonObject, type: string, text: string, resource: ApiResource): JsonObject {
  switch (type) {
    case patchTypes.merge:
      return mergeObject(object, objectIn(text));
    case patchTypes.strategic:
      if (!resource.builtin) throw unsupportedMediaType([patchTypes.json, patchTypes.merge, patchTypes.apply]);
      return strategicMergePatch(object, objectIn(text));
    case patchTypes.json:
      return jsonPatched(object, parseJson(text));
    default:
      throw unsupportedMediaType(Object.values(patchTypes));
  }
}

function objectIn(text: string): JsonObject {
  const patch = parseJson(text);
  if (!isObject(patch)) throw badRequest('the patch must be an object');
  return patch;
}

const maxOperations = 10_000;

function jsonPatched(object: JsonObject, operations: Json): JsonObject {
  if (!isArray(operations)) throw badRequest('the patch must be a list of operations');
  if (operations.length > maxOperations) {
    throw new StatusError(
      413,
      'RequestEntityTooLarge',
      `The allowed maximum operations in a JSON patch is ${maxOperations}, got ${operations.length}`,
    );
  }
  try {
    const copy = structuredClone(object);
    const { newDocument } = jsonPatch.applyPatch(copy, structuredClone(operations) as unknown as Operation[], true, true, true);
    return newDocument;
  } catch (error) {
    const [why = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    throw new StatusError(422, 'Invalid', `the server rejected our request due to an error in our request: ${why}`);
  }
}
