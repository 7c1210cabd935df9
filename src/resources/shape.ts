import type { z } from 'zod';

type Check = (value: unknown) => boolean;
type Def = z.core.$ZodTypes['_zod']['def'];
type ChecksOf = Def['checks'];

/**
 * Whether a value is what a schema takes. Says the same as `safeParse(value).success`, several
 * times as fast because it builds no result: caches ask it of every event of a watch. Unknown kinds
 * of schemas are left to zod.
 */
export function shapeOf(schema: z.core.$ZodType): Check {
  return (
    compile((schema as z.core.$ZodTypes)._zod.def) ??
    ((value) => (schema as z.ZodType).safeParse(value).success)
  );
}

function compile(def: Def): Check | undefined {
  switch (def.type) {
    case 'object':
      return objectCheck(def);
    case 'array':
      return arrayCheck(def);
    case 'string':
      return stringCheck(def);
    case 'number':
      return intCheck(def);
    case 'enum': {
      const values = new Set<unknown>(Object.values(def.entries));
      return unchecked(def) ? (value) => values.has(value) : undefined;
    }
    case 'boolean':
      return unchecked(def) ? (value) => typeof value === 'boolean' : undefined;
    case 'optional':
    case 'default': {
      const inner = shapeOf(def.innerType);
      return unchecked(def) ? (value) => value === undefined || inner(value) : undefined;
    }
    default:
      return undefined;
  }
}

const unchecked = ({ checks }: { readonly checks?: ChecksOf }): boolean =>
  checks === undefined || checks.length === 0;

function objectCheck(def: z.core.$ZodObjectDef): Check | undefined {
  if (!unchecked(def) || def.catchall !== undefined) return undefined;
  const fields = Object.entries(def.shape).map(([key, field]) => ({ key, check: shapeOf(field) }));
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const object = value as Readonly<Record<string, unknown>>;
    for (const { key, check } of fields) if (!check(object[key])) return false;
    return true;
  };
}

function arrayCheck(def: z.core.$ZodArrayDef): Check | undefined {
  const element = shapeOf(def.element);
  const length = bounds(def.checks);
  if (length === undefined) return undefined;
  return (value) =>
    Array.isArray(value) &&
    value.length >= length.min &&
    value.length <= length.max &&
    value.every(element);
}

function stringCheck(def: z.core.$ZodStringDef): Check | undefined {
  // A format that a string has by its type, not by a check.
  if ('check' in def) return undefined;
  const length = bounds(def.checks);
  if (length === undefined) return undefined;
  const { min, max, patterns } = length;
  return (value) =>
    typeof value === 'string' &&
    hasLength(value, min, max) &&
    patterns.every((pattern) => pattern.test(value));
}

/**
 * In characters, as zod and the API server count: one outside of the basic plane is two units of
 * UTF-16.
 */
function hasLength(text: string, min: number, max: number): boolean {
  const { length: units } = text;
  if (units < min) return false;
  if (units <= max && units >= min * 2) return true;
  let characters = 0;
  for (const _character of text) characters += 1;
  return characters >= min && characters <= max;
}

function intCheck(def: z.core.$ZodNumberDef): Check | undefined {
  if (!('format' in def) || def.format !== 'safeint') return undefined;
  const range = bounds(def.checks);
  return range === undefined
    ? undefined
    : (value) =>
        Number.isSafeInteger(value) && Number(value) >= range.min && Number(value) <= range.max;
}

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly patterns: readonly RegExp[];
}

/**
 * Limits that the checks of a string, an array or a number allow; undefined when a check is of
 * another kind.
 */
function bounds(checks: ChecksOf = []): Bounds | undefined {
  let [min, max] = [-Infinity, Infinity];
  const patterns: RegExp[] = [];
  for (const check of checks) {
    const { def } = (check as z.core.$ZodChecks)._zod;
    if (def.check === 'min_length') min = Math.max(min, def.minimum);
    else if (def.check === 'max_length') max = Math.min(max, def.maximum);
    else if (def.check === 'greater_than' && def.inclusive && typeof def.value === 'number')
      min = Math.max(min, def.value);
    else if (def.check === 'less_than' && def.inclusive && typeof def.value === 'number')
      max = Math.min(max, def.value);
    else if (def.check === 'string_format' && def.format === 'regex' && isPlain(def.pattern))
      patterns.push(def.pattern);
    else return undefined;
  }
  return { min, max, patterns };
}

/** A pattern with the flag g or y remembers where it was. */
const isPlain = (pattern: RegExp | undefined): pattern is RegExp =>
  pattern !== undefined && !pattern.global && !pattern.sticky;
