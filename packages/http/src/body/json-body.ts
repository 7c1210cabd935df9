import type { IncomingMessage } from 'node:http';
import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { isDeeperThan, repeatedNames } from '@conversation-operator/base/json-text';
import { Refusal } from '../refusal.ts';

/** Maximum nesting depth of a body, far above that of every valid request. */
const maxDepth = 64;
/** Maximum length of a JSON path in a message. The client has chosen the names in the path. */
const maxShownLength = 256;

const malformed = (detail: string) => new Refusal('malformed-json', detail);

const shown = (place: string): string =>
  // eslint-disable-next-line no-control-regex -- the pattern replaces control characters
  place.slice(0, maxShownLength).replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, '?');

/**
 * Parses a body, which has to be an object or an array. The names in an object have to be unique
 * (RFC 7493), because parsers differ in which duplicate they use. Throws `malformed-json`.
 */
function parseJson(text: string): unknown {
  const value = parse(text);
  if (typeof value !== 'object' || value === null)
    throw malformed('The body has to be a JSON object or array.');
  if (isDeeperThan(value, maxDepth))
    throw malformed(`The body is nested more than ${maxDepth} levels deep.`);
  for (const place of repeatedNames(text))
    throw malformed(`The body has the same name twice in one object: ${shown(place)}`);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal('malformed-json', 'The body is not valid JSON.', { cause });
  }
}

const firstBytes = 4096;

/** Copies chunks into one buffer on arrival. A list of 1-byte chunks takes 100 times the memory. */
export class ByteGatherer {
  #buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(firstBytes, length, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    this.#buffer.set(chunk, this.#length);
    this.#length = length;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}

/** Default maximum length of a body in bytes, both compressed and decompressed. */
export const usualBodyBytes = 1024 * 1024;

const decoders: Readonly<Record<string, (() => Transform) | undefined>> = {
  gzip: () => createGunzip(),
  deflate: () => createInflate(),
  br: () => createBrotliDecompress(),
};

const unsupported = () =>
  new Refusal(
    'unsupported-media-type',
    'The body has to be UTF-8, and plain or compressed with gzip, deflate or br.',
  );
const tooLarge = (maxBytes: number) =>
  new Refusal(
    'body-too-large',
    `The body is larger than ${maxBytes < usualBodyBytes ? `${maxBytes / 1024} KiB` : `${maxBytes / 1024 / 1024} MiB`}.`,
  );

export const hasBody = ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
  headers['transfer-encoding'] !== undefined ||
  (headers['content-length'] !== undefined && headers['content-length'] !== '0');

/** Returns the maximum length of a body: `maxBytes`, or its Content-Length if uncompressed. */
export function bodyBytesOf(
  request: Pick<IncomingMessage, 'headers'>,
  maxBytes = usualBodyBytes,
): number {
  if (!hasBody(request)) return 0;
  const { 'content-length': length, 'content-encoding': encoding } = request.headers;
  return length === undefined || encoding !== undefined
    ? maxBytes
    : Math.min(Number(length), maxBytes);
}

/** Throws `unsupported-media-type` unless the body has the type `wanted` in UTF-8. */
function refuseOtherTypes({ headers }: IncomingMessage, wanted: string): void {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').split(';');
  if (type.trim().toLowerCase() !== wanted)
    throw new Refusal('unsupported-media-type', `The body has to be sent as ${wanted}.`);
  for (const parameter of parameters) {
    const [, charset] = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i.exec(parameter) ?? [];
    if (charset !== undefined && !/^utf-?8$/i.test(charset)) throw unsupported();
  }
}

function decoderOf({ headers }: IncomingMessage): Transform | undefined {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity') return undefined;
  const create = Object.hasOwn(decoders, encoding) ? decoders[encoding] : undefined;
  if (create === undefined) throw unsupported();
  return create();
}

/** Reads and decompresses a body, by default JSON. After a `Refusal`, the rest remains unread. */
export async function readBody(
  request: IncomingMessage,
  maxBytes = usualBodyBytes,
  type = 'application/json',
): Promise<Buffer> {
  refuseOtherTypes(request, type);
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes);
  return readAll(request, decoderOf(request), maxBytes);
}

/** Parses a body, or throws a `Refusal`. An empty body, which many clients send, is `{}`. */
export const jsonOf = (body: Buffer): unknown => (body.length === 0 ? {} : parseJson(decode(body)));

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new Refusal('malformed-json', 'The body is not valid UTF-8.', { cause });
  }
}

function readAll(
  request: IncomingMessage,
  decoder: Transform | undefined,
  maxBytes: number,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const source: Readable = decoder ?? request;
  const gathered = new ByteGatherer();
  let packed = 0;
  const stop = (refusal: Refusal) => {
    request.off('data', count);
    source.off('data', keep);
    if (decoder !== undefined) {
      request.unpipe(decoder);
      decoder.destroy();
    }
    request.pause();
    reject(refusal);
  };
  const count = (chunk: Buffer) => {
    packed += chunk.length;
    if (packed > maxBytes) stop(tooLarge(maxBytes));
  };
  const keep = (chunk: Buffer) => {
    if (gathered.length + chunk.length > maxBytes) stop(tooLarge(maxBytes));
    else gathered.add(chunk);
  };
  const broken = (cause: Error) =>
    stop(new Refusal('malformed-request', 'The body could not be read.', { cause }));
  request.once('error', broken).once('close', () => {
    if (!request.complete) broken(new Error('the client has gone'));
  });
  source.on('data', keep).once('end', () => resolve(gathered.bytes()));
  if (decoder !== undefined) {
    decoder.once('error', broken);
    request.on('data', count).pipe(decoder);
  }
  return promise;
}
