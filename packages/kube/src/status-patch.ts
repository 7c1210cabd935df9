import { isDeepStrictEqual } from 'node:util';

export type JsonPatch = readonly Operation[];
type Operation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/**
 * Returns the JSON patch that replaces the status of an object of this version. The API server
 * answers 409 when the stored version differs.
 * @param from Cached status of the same version, from which the caller computed the new status. The
 * patch contains only the differences, so fields that both statuses lack, at any depth, keep their
 * stored values. Arrays are replaced whole. Absent: the patch replaces the whole status.
 */
export function statusPatch(resourceVersion: string, status: object, from?: object): JsonPatch {
  // The API server treats the resourceVersion in a patch as a precondition.
  const version = {
    op: 'replace',
    path: '/metadata/resourceVersion',
    value: resourceVersion,
  } as const;
  if (from === undefined) return [version, { op: 'add', path: '/status', value: status }];
  return [version, ...changes('/status', from, status)];
}

function changes(path: string, from: object, to: object): readonly Operation[] {
  // A Map, unlike an object, has no inherited properties that a field name could match.
  const before = new Map<string, unknown>(Object.entries(from));
  const after = new Map<string, unknown>(Object.entries(to));
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].flatMap((name) =>
    change(
      `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      before.get(name),
      after.get(name),
    ),
  );
}

function change(path: string, from: unknown, to: unknown): readonly Operation[] {
  if (to === undefined) return from === undefined ? [] : [{ op: 'remove', path }];
  if (isObject(from) && isObject(to)) return changes(path, from, to);
  return isDeepStrictEqual(from, to) ? [] : [{ op: 'add', path, value: to }];
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
