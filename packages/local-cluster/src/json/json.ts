/** Immutable JSON: values are never changed in place. `undefined` means absent. */
export type Json = null | boolean | number | string | JsonArray | JsonObject;
export type JsonArray = readonly Json[];
export interface JsonObject {
  readonly [key: string]: Json | undefined;
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const isArray = (value: unknown): value is JsonArray => Array.isArray(value);

const memberOf = (value: Json | undefined, key: string): Json | undefined =>
  isObject(value) ? value[key] : undefined;

export const objectAt = (value: Json | undefined, key: string): JsonObject | undefined => {
  const child = memberOf(value, key);
  return isObject(child) ? child : undefined;
};
export const arrayAt = (value: Json | undefined, key: string): JsonArray => {
  const child = memberOf(value, key);
  return isArray(child) ? child : [];
};
export const stringAt = (value: Json | undefined, key: string): string | undefined => {
  const child = memberOf(value, key);
  return typeof child === 'string' ? child : undefined;
};
export const numberAt = (value: Json | undefined, key: string): number | undefined => {
  const child = memberOf(value, key);
  return typeof child === 'number' ? child : undefined;
};

export const valueAt = (value: Json | undefined, path: readonly string[]): Json | undefined =>
  path.reduce(memberOf, value);

/** Replaces the value at a path of keys. Absent parents are created. */
export function withValueAt(
  object: JsonObject,
  path: readonly string[],
  value: Json | undefined,
): JsonObject {
  const [key, ...rest] = path;
  if (key === undefined) return object;
  return {
    ...object,
    [key]: rest.length === 0 ? value : withValueAt(objectAt(object, key) ?? {}, rest, value),
  };
}

export const without = (object: JsonObject, ...keys: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));

/** Compares deeply, ignoring the order of keys and keys that are `undefined`. */
export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (isArray(a))
    return isArray(b) && a.length === b.length && a.every((item, index) => equal(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  for (const key of Object.keys(a)) if (!equal(a[key], b[key])) return false;
  for (const key of Object.keys(b)) if (b[key] !== undefined && a[key] === undefined) return false;
  return true;
}

/** Applies a JSON merge patch (RFC 7386). */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const result: Record<string, Json | undefined> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === undefined) continue;
    if (value === null) Reflect.deleteProperty(result, key);
    else setOwn(result, key, mergePatch(result[key], value));
  }
  return result;
}

/** Sets a key that a client has sent: `__proto__` becomes an ordinary key. */
export function setOwn(
  target: Record<string, Json | undefined>,
  key: string,
  value: Json | undefined,
): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  else target[key] = value;
}

export const mergeObject = (target: JsonObject, patch: JsonObject): JsonObject => {
  const merged = mergePatch(target, patch);
  return isObject(merged) ? merged : target;
};
