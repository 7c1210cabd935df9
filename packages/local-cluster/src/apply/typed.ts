import { StatusError } from '../api/status-error.ts';
import { isArray, isObject, objectAt, stringAt, type Json, type JsonObject } from '../json/json.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { prune } from '../schema/prune.ts';
import { itemElement, shownPath } from './field-set.ts';
import { childPlace, itemPlace, type Place } from './list-keys.ts';
import { rootOf } from './managed-fields.ts';

/** Returns the duplicate items of lists whose items have an identity. */
function duplicateItems(value: Json | undefined, place: Place, path: string): readonly string[] {
  if (isObject(value)) {
    return Object.entries(value).flatMap(([key, child]) =>
      duplicateItems(child, childPlace(place, key), `${path}.${key}`),
    );
  }
  if (!isArray(value)) return [];
  const seen = new Set<string>();
  return value.flatMap((item) => {
    const element = itemElement(item, place);
    if (element === undefined) return [];
    const inner = duplicateItems(item, itemPlace(place), `${path}${shownPath(element)}`);
    if (!seen.has(element)) {
      seen.add(element);
      return inner;
    }
    return [`${path}: duplicate entries for key ${shownPath(element)}`, ...inner];
  });
}

/**
 * Checks that the schema of the kind defines every applied field, because an unknown field could
 * have no owner. Kubernetes answers such a configuration with 500.
 * @throws StatusError
 */
export function checkTyped(config: JsonObject, resource: ApiResource): void {
  const unknown: string[] = [];
  prune(config, resource.schema, unknown);
  const faults = [
    ...unknown.map((field) => `.${field}: field not declared in schema`),
    ...duplicateItems(config, rootOf(resource), ''),
  ];
  if (faults.length === 0) return;
  const metadata = objectAt(config, 'metadata');
  const subject = `${stringAt(metadata, 'namespace') ?? ''}/${stringAt(metadata, 'name') ?? ''}; ${apiVersionOf(resource)}, Kind=${resource.kind}`;
  const text =
    faults.length === 1
      ? (faults[0] ?? '')
      : `errors:\n${faults.map((fault) => `  ${fault}`).join('\n')}`;
  throw new StatusError(500, '', `failed to create typed patch object (${subject}): ${text}`);
}
