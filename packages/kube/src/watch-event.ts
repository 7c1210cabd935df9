import { apiVersionOf, type KubeObject, type ResourceDefinition } from './object.ts';
import type { WatchEvent } from './client.ts';
import { ApiError, TransportError, type StatusBody } from './errors.ts';

interface RawEvent {
  readonly type: string;
  readonly object: unknown;
}

/**
 * One line of a watch as an event, without `managedFields`; with the bytes that the line has lost. Throws an `ApiError` for an ERROR event, and a `TransportError` for
 * what is no event.
 */
export function watchEvent<T extends KubeObject>(resource: ResourceDefinition<T>, line: string, removedBytes = 0): WatchEvent<T> {
  const event = parseLine(line);
  switch (event.type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED': {
      const object = withoutManagedFields(resource, event.object);
      return removedBytes === 0 ? { type: event.type, object } : { type: event.type, object, removedBytes };
    }
    case 'BOOKMARK':
      return { type: 'BOOKMARK', resourceVersion: (event.object as KubeObject).metadata.resourceVersion };
    case 'ERROR': {
      const status = event.object as StatusBody;
      throw new ApiError(status.code ?? 500, status);
    }
    default:
      throw new TransportError(`the watch sent an event of unknown type '${event.type}'`);
  }
}

/** Items of a list come without kind. */
export function withoutManagedFields<T extends KubeObject>(resource: ResourceDefinition<T>, answer: unknown): T {
  const object = answer as T;
  const { managedFields, ...metadata } = object.metadata;
  if ((object.kind as string | undefined) === undefined)
    return { ...object, apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
  return managedFields === undefined ? object : { ...object, metadata };
}

function parseLine(line: string): RawEvent {
  try {
    return parseAbridged(line) ?? (JSON.parse(line) as RawEvent);
  } catch (error) {
    throw new TransportError('the watch was cut in the middle of an event', { cause: error });
  }
}

const opening = '"managedFields":[';
/** What no server writes into managedFields, whose elements are objects. */
const mark = 0;

/**
 * Parses a line with a mark in the place of what stands between the first `"managedFields":[` and the next `]`: that is nearly
 * the half of an event and the costlier one, and would be thrown away at once. Undefined where it is not sure that this was the
 * right thing to replace.
 *
 * Why it can be sure: the line is the same up to the bracket, so it is metadata's in both when the mark is found there. A `]`
 * within a string would leave an odd number of quotes, and one that closes another bracket an odd number of those, so that the
 * rest would be no JSON.
 */
function parseAbridged(line: string): RawEvent | undefined {
  const start = line.indexOf(opening) + opening.length;
  if (start < opening.length) return undefined;
  const end = line.indexOf(']', start);
  if (end === -1) return undefined;
  let event: RawEvent;
  try {
    event = JSON.parse(`${line.slice(0, start)}${mark}${line.slice(end)}`) as RawEvent;
  } catch {
    return undefined;
  }
  return isMarked(event) ? event : undefined;
}

function isMarked({ object }: RawEvent): boolean {
  const fields: unknown = (object as Partial<KubeObject> | undefined)?.metadata?.managedFields;
  return Array.isArray(fields) && fields.length === 1 && fields[0] === mark;
}
