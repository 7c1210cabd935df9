import { apiVersionOf, type KubeObject, type ResourceDefinition } from './object.ts';
import type { WatchEvent } from './client.ts';
import { ApiError, TransportError, type StatusBody } from './errors.ts';

interface RawEvent {
  readonly type: string;
  readonly object: unknown;
}

/**
 * Parses one line of a watch as an event without `managedFields`. Throws an `ApiError` for an ERROR
 * event, and a `TransportError` for a line that is not an event.
 */
export function watchEvent<T extends KubeObject>(
  resource: ResourceDefinition<T>,
  line: string,
): WatchEvent<T> {
  const event = parseLine(line);
  switch (event.type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return { type: event.type, object: withoutManagedFields(resource, event.object) };
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
 * Parses the JSON of an object. `managedFields` may contain only a placeholder, so readers must not
 * use this field. Throws a SyntaxError for invalid JSON.
 */
export const parseObject = (json: string): unknown => parseAbridged(json, (object) => object);

const opening = '"managedFields":[';
/** Replaces the elements of `managedFields`, which are objects and never numbers. */
const placeholder = 0;

/**
 * Parses JSON with `placeholder` in place of everything between the first `"managedFields":[` and
 * the next `]`, which is nearly half of an object and costly to parse. Parses the whole JSON unless
 * the result of `objectOf` proves that its own `managedFields` were replaced.
 *
 * The result is reliable for two reasons. The JSON is unchanged up to the first bracket, so a
 * placeholder in `metadata.managedFields` proves that this bracket belongs to this field. If the
 * `]` is within a string or closes another bracket, quotes or brackets do not match and the text is
 * not JSON.
 */
function parseAbridged(json: string, objectOf: (parsed: unknown) => unknown): unknown {
  const start = json.indexOf(opening) + opening.length;
  const end = start < opening.length ? -1 : json.indexOf(']', start);
  if (end !== -1)
    try {
      const parsed: unknown = JSON.parse(`${json.slice(0, start)}${placeholder}${json.slice(end)}`);
      if (hasPlaceholder(objectOf(parsed))) return parsed;
    } catch {
      // The parse of the whole JSON below decides whether it is valid.
    }
  return JSON.parse(json);
}

function hasPlaceholder(object: unknown): boolean {
  const fields: unknown = (object as Partial<KubeObject> | null | undefined)?.metadata
    ?.managedFields;
  return Array.isArray(fields) && fields.length === 1 && fields[0] === placeholder;
}

const newline = 0x0a;

/**
 * Yields whole lines from chunks of UTF-8 that may end anywhere, even within a character. Each
 * buffer contains as many lines as possible, so that the caller decodes them in one step. Each
 * buffer ends with a newline, except for the text after the last newline of the stream. Throws a
 * TransportError for a line longer than `maxLineBytes`.
 */
export async function* wholeLines(
  chunks: AsyncIterable<Uint8Array>,
  maxLineBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    let start = 0;
    if (bytes > 0) {
      start = chunk.indexOf(newline) + 1;
      if (start > 0) {
        const line = Buffer.concat([...parts, chunk.subarray(0, start)]);
        parts = [];
        bytes = 0;
        yield line;
      }
    }
    const end = chunk.lastIndexOf(newline) + 1;
    if (end > start) yield Buffer.from(chunk.buffer, chunk.byteOffset + start, end - start);
    if (end === chunk.byteLength) continue;
    parts.push(chunk.subarray(end));
    bytes += chunk.byteLength - end;
    if (bytes > maxLineBytes)
      throw new TransportError(`the server sent a line longer than ${maxLineBytes} bytes`);
  }
  if (bytes > 0) yield Buffer.concat(parts);
}

/** Yields the nonempty lines of a text. Each is a slice and keeps the whole text in memory. */
export function* linesOf(text: string): Generator<string, void, undefined> {
  let start = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
    if (end > start) yield text.slice(start, end);
    start = end + 1;
  }
  if (start < text.length) yield text.slice(start);
}

/** A reusable buffer. Every 64 MiB of new buffers would cause a garbage collection. */
export class ScratchBuffer {
  #bytes = Buffer.alloc(0);

  /** Concatenates the chunks. The result is valid until the next call. */
  gather(chunks: readonly Uint8Array[], count: number): Buffer {
    if (this.#bytes.length < count) this.#bytes = Buffer.allocUnsafeSlow(count);
    let at = 0;
    for (const chunk of chunks) {
      this.#bytes.set(chunk, at);
      at += chunk.byteLength;
    }
    return this.#bytes.subarray(0, count);
  }
}
