import { apiVersionOf, type KubeObject, type ResourceDefinition } from './object.ts';
import type { WatchEvent } from './client.ts';
import { ApiError, TransportError, type StatusBody } from './errors.ts';

interface RawEvent {
  readonly type: string;
  readonly object: unknown;
}

/**
 * Parses one line of a watch as an event without `managedFields`. `removedBytes` is the number of
 * bytes that were removed from the line. Throws an `ApiError` for an ERROR event, and a
 * `TransportError` for a line that is not an event.
 */
export function watchEvent<T extends KubeObject>(
  resource: ResourceDefinition<T>,
  line: string,
  removedBytes = 0,
): WatchEvent<T> {
  const event = parseLine(line);
  switch (event.type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED': {
      const object = withoutManagedFields(resource, event.object);
      return removedBytes === 0
        ? { type: event.type, object }
        : { type: event.type, object, removedBytes };
    }
    case 'BOOKMARK':
      return {
        type: 'BOOKMARK',
        resourceVersion: (event.object as KubeObject).metadata.resourceVersion,
      };
    case 'ERROR': {
      const status = event.object as StatusBody;
      throw new ApiError(status.code ?? 500, status);
    }
    default:
      throw new TransportError(`the watch sent an event of unknown type '${event.type}'`);
  }
}

/** Removes `managedFields`, and adds apiVersion and kind, which items of a list lack. */
export function withoutManagedFields<T extends KubeObject>(
  resource: ResourceDefinition<T>,
  item: unknown,
): T {
  const object = item as T;
  const { managedFields, ...metadata } = object.metadata;
  if ((object.kind as string | undefined) === undefined)
    return { ...object, apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
  return managedFields === undefined ? object : { ...object, metadata };
}

function parseLine(line: string): RawEvent {
  try {
    return parseAbridged(line, eventObject) as RawEvent;
  } catch (error) {
    throw new TransportError('the watch ended in the middle of an event', { cause: error });
  }
}

const eventObject = (event: unknown): unknown => (event as Partial<RawEvent>).object;

/**
 * Parses the JSON of an object whose `managedFields`, which a reader must not use, may have been
 * replaced. Throws a SyntaxError for a text that is not JSON.
 */
export const parseObject = (json: string): unknown => parseAbridged(json, (object) => object);

const opening = '"managedFields":[';
/**
 * Placeholder for managed fields; no server writes a number there, since all elements of
 * managedFields are objects.
 */
const placeholder = 0;

/**
 * Parses JSON with a placeholder in the place of everything between the first `"managedFields":[`
 * and the next `]`, which is nearly half of an object and costly to parse. Parses the whole JSON
 * when the replaced part may be another one than that of the object that `objectOf` returns.
 *
 * The result is reliable for the following reason. The JSON is unchanged up to the bracket, so a
 * placeholder in `metadata.managedFields` proves that the bracket belongs to this field. A `]`
 * within a string would leave an odd number of quotes, and a `]` of another bracket would leave an
 * odd number of brackets, so that the text would not be JSON.
 */
function parseAbridged(json: string, objectOf: (parsed: unknown) => unknown): unknown {
  const start = json.indexOf(opening) + opening.length;
  const end = start < opening.length ? -1 : json.indexOf(']', start);
  if (end !== -1)
    try {
      const parsed: unknown = JSON.parse(`${json.slice(0, start)}${placeholder}${json.slice(end)}`);
      if (hasPlaceholder(objectOf(parsed))) return parsed;
    } catch {
      // The whole JSON decides whether it is valid.
    }
  return JSON.parse(json);
}

function hasPlaceholder(object: unknown): boolean {
  const fields: unknown = (object as Partial<KubeObject> | null | undefined)?.metadata
    ?.managedFields;
  return Array.isArray(fields) && fields.length === 1 && fields[0] === placeholder;
}
