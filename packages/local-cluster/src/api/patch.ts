import jsonPatch, { type Operation } from 'fast-json-patch';
import { parse as parseYaml } from 'yaml';
import { isArray, isObject, type Json, type JsonObject } from '../json/json.ts';
import { shapeOf } from '../json/duplicate-keys.ts';
import { mergeObject } from '../json/merge-patch.ts';
import { strategicMergePatch } from '../apply/strategic-merge.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import { badRequest, StatusError, tooLarge, unsupportedMediaType } from './status-error.ts';

export const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;

/**
 * Maximum depth of a body: deeper than any useful object, and shallow enough for recursive
 * functions.
 */
const maxDepth = 1000;

/**
 * Returns whether a body exceeds the maximum depth. A count of brackets, which includes brackets
 * within strings, selects the bodies that need the exact check.
 */
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[{}[\]]/g)) {
    depth += bracket === '{' || bracket === '[' ? 1 : -1;
    if (depth > maxDepth) return shapeOf(text).depth > maxDepth;
  }
  return false;
}

function parsed(parse: () => Json): Json {
  try {
    return parse();
  } catch (error) {
    throw badRequest(
      `error decoding the body: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

export const parseJson = (text: string): Json =>
  parsed(() => {
    const value = JSON.parse(text) as Json;
    if (isTooDeep(text)) throw new RangeError('exceeded max depth');
    return value;
  });

export const parseYamlBody = (text: string): Json =>
  parsed(() => parseYaml(text, { maxAliasCount: 100 }) as Json);

/**
 * Returns the object after a patch other than apply. @throws StatusError 415 for a patch type that
 * the kind does not support, 422 for a JSON patch that does not apply
 */
export function patched(
  object: JsonObject,
  type: string,
  text: string,
  resource: ApiResource,
): JsonObject {
  switch (type) {
    case patchTypes.merge:
      return mergeObject(object, objectIn(text));
    case patchTypes.strategic:
      if (!resource.builtin)
        throw unsupportedMediaType([patchTypes.json, patchTypes.merge, patchTypes.apply]);
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

/** Kubernetes lets `replace` add absent members, unlike RFC 6902. */
function addedWhereAbsent(operation: Operation, document: unknown): Operation {
  if (operation.op !== 'replace') return operation;
  const keys = operation.path.split('/').slice(1);
  const last = keys.pop()?.replaceAll('~1', '/').replaceAll('~0', '~');
  const parent: unknown = jsonPatch.getValueByPointer(
    document,
    keys.map((key) => `/${key}`).join(''),
  );
  return isObject(parent) && last !== undefined && !Object.hasOwn(parent, last)
    ? { ...operation, op: 'add' }
    : operation;
}

function jsonPatched(object: JsonObject, operations: Json): JsonObject {
  if (!isArray(operations)) throw badRequest('the patch must be a list of operations');
  if (operations.length > maxOperations) {
    throw tooLarge(
      `The allowed maximum operations in a JSON patch is ${maxOperations}, got ${operations.length}`,
    );
  }
  try {
    let document: unknown = structuredClone(object);
    for (const operation of structuredClone(operations) as unknown as Operation[])
      document = jsonPatch.applyOperation(
        document,
        addedWhereAbsent(operation, document),
        true,
        true,
        true,
      ).newDocument;
    return document as JsonObject;
  } catch (error) {
    throw new StatusError(
      422,
      'Invalid',
      'the server rejected our request due to an error in our request',
      undefined,
      { cause: error },
    );
  }
}
