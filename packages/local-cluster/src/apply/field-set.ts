import { equal, isArray, isObject, type Json, type JsonObject } from '../json/json.ts';
import {
  childPlace,
  identityAt,
  isAtomicMap,
  itemPlace,
  keyDefault,
  type Place,
} from './list-keys.ts';

/**
 * A set of fields in the form of `fieldsV1`. An element of a path is `f:name`, `k:{"key":"value"}`
 * (an item by its keys) or `v:value` (an item by its value); NUL joins the elements of a path.
 */
export type FieldSet = ReadonlySet<string>;

const joint = '\0';
export const elementsOf = (path: string): readonly string[] => path.split(joint);

export const itemElement = (item: Json, place: Place): string | undefined => {
  const identity = identityAt(place);
  if (identity.kind === 'set') return `v:${JSON.stringify(item)}`;
  if (identity.kind === 'atomic' || !isObject(item)) return undefined;
  return `k:${JSON.stringify(Object.fromEntries([...identity.keys].sort().map((key) => [key, item[key] ?? keyDefault(place, key)])))}`;
};

/** Returns every field that a value sets. */
export function fieldsOf(value: Json, place: Place): FieldSet {
  const found = new Set<string>();
  collect(value, place, [], found);
  return found;
}

function collect(value: Json, place: Place, path: readonly string[], found: Set<string>): void {
  const add = () => path.length > 0 && found.add(path.join(joint));
  if (isObject(value) && !isAtomicMap(place)) {
    const entries = Object.entries(value).filter(([, child]) => child !== undefined);
    if (entries.length === 0) add();
    for (const [key, child] of entries)
      collect(child ?? null, childPlace(place, key), [...path, `f:${key}`], found);
    return;
  }
  if (!isArray(value) || identityAt(place).kind === 'atomic' || value.length === 0) {
    add();
    return;
  }
  for (const item of value) {
    const at = [...path, itemElement(item, place) ?? ''];
    // The set includes the item itself, which is removed together with its last field.
    found.add(at.join(joint));
    if (isObject(item)) collect(item, { ...itemPlace(place) }, at, found);
  }
}

export function toFieldsV1(fields: FieldSet): JsonObject {
  interface Node {
    [element: string]: Node;
  }
  const root: Node = {};
  const members = new Set(fields);
  for (const path of [...fields].sort()) {
    let node = root;
    for (const element of elementsOf(path)) node = node[element] ??= {};
    const inner = [...members].some((other) => other.startsWith(`${path}${joint}`));
    if (inner) node['.'] = {};
  }
  return root;
}

export function fromFieldsV1(tree: Json | undefined): FieldSet {
  const found = new Set<string>();
  const walk = (node: Json | undefined, path: readonly string[]): void => {
    const keys = isObject(node) ? Object.keys(node) : [];
    if (path.length > 0 && (keys.length === 0 || keys.includes('.'))) found.add(path.join(joint));
    for (const key of keys) if (key !== '.' && isObject(node)) walk(node[key], [...path, key]);
  };
  walk(tree, []);
  return found;
}

function itemIndex(items: readonly Json[], element: string): number {
  const wanted = JSON.parse(element.slice(2)) as Json;
  if (element.startsWith('v:')) return items.findIndex((item) => equal(item, wanted));
  if (!isObject(wanted)) return -1;
  return items.findIndex(
    (item) =>
      isObject(item) &&
      Object.entries(wanted).every(
        ([key, value]) =>
          equal(item[key], value) || (item[key] === undefined && key === 'protocol'),
      ),
  );
}

export function valueAtPath(value: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((node, element) => {
    if (element.startsWith('f:')) return isObject(node) ? node[element.slice(2)] : undefined;
    return isArray(node) ? node[itemIndex(node, element)] : undefined;
  }, value);
}

/** Returns the value without the field or item at the path. */
export function removedAtPath(value: Json, path: readonly string[]): Json {
  const [element, ...rest] = path;
  if (element === undefined) return value;
  if (element.startsWith('f:')) {
    const key = element.slice(2);
    const child = isObject(value) ? value[key] : undefined;
    if (!isObject(value) || child === undefined) return value;
    if (rest.length > 0) return { ...value, [key]: removedAtPath(child, rest) };
    return Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
  }
  if (!isArray(value)) return value;
  const index = itemIndex(value, element);
  if (rest.length === 0) return value.filter((_, position) => position !== index);
  return value.map((item, position) => (position === index ? removedAtPath(item, rest) : item));
}

/** Formats a path as conflict messages do: `.spec.containers[name="a"].image`. */
export const shownPath = (path: string): string =>
  elementsOf(path)
    .map((element) => {
      if (element.startsWith('f:')) return `.${element.slice(2)}`;
      if (element.startsWith('v:')) return `[=${element.slice(2)}]`;
      const keys = JSON.parse(element.slice(2)) as JsonObject;
      return `[${Object.entries(keys)
        .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
        .join(',')}]`;
    })
    .join('');
