import { StatusError } from '../api/status-error.ts';
import { isArray, isObject, objectAt, stringAt, type Json, type JsonObject } from '../json/json.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { prune } from '../schema/prune.ts';
import { itemElement, shownPath } from './field-set.ts';
import { childPlace, itemPlace, type Place } from './list-keys.ts';
import { rootOf } from './managed-fields.ts';

/** Items that stand twice in a list whose items are told apart. */
function doubleItems(value: Json | undefined, place: Place, path: string): readonly string[] {
  if (isObject(value)) {
    return Object.entries(value).flatMap(([key, child]) => doubleItems(child, childPlace(place, key), `${path}.${key}`));
  }
  if (!isArray(value)) return [];
  const seen = new Set<string>();
  return value.flatMap((item) => {
    const element = itemElement(item, place);
    if (element === undefined) return [];
    const inner = doubleItems(item, itemPlace(place), `${path}${shownPath(element)}`);
    if (!seen.has(element)) {
      seen.add(element);
      return inner;
    }
    return [`${path}: duplicate entries for key ${shownPath(element)}`, ...inner];
  });
}

/**
 * What is applied must be of the kind's schema in every field, or nobody could tell whose it is. Kubernetes says so with 500.
 * @throws StatusError
 */
export function checkTyped(config: JsonObject, resource: ApiResource): void {
  const unknown: string[] = [];
  prune(config, resource.schema, unknown);
  const faults = [...unknown.map((field) => `.${field}: field not declared in schema`), ...doubleItems(config, rootOf(resource), '')];
  if (faults.length === 0) return;
  const metadata = objectAt(config, 'metadata');
  const subject = `${stringAt(metadata, 'namespace') ?? ''}/${stringAt(metadata, 'name') ?? ''}; ${apiVersionOf(resource)}, Kind=${resource.kind}`;
  const text = faults.length === 1 ? (faults[0] ?? '') : `errors:\n${faults.map((fault) => `  ${fault}`).join('\n')}`;
  throw new StatusError(500, '', `failed to create typed patch object (${subject}): ${text}`);
}
