import { isObject, type Json, type JsonObject } from './json.ts';

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

/** Assigns a key from outside, so that `__proto__` becomes an ordinary key. */
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
