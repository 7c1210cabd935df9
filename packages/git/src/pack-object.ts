import { createHash } from 'node:crypto';
import { inflateSync, type Inflate } from 'node:zlib';
import { systemCodeOf } from '@conversation-operator/base/system-code';

/** Additional bytes of the output buffer, with which zlib inflates an object in one step. */
const additionalBytes = 64;
/** Maximum factor of a digit in an encoded size, so that the size stays an exact number. */
const maxSize = 2 ** 40;

/** An object of a kind that git writes at the beginning of a pack. */
export interface EarlyObject {
  readonly kind: 'commit' | 'tag';
  readonly content: Buffer;
}

export interface Head {
  readonly kind: EarlyObject['kind'] | 'delta';
  readonly size: number;
  /** The base of a delta: its offset in the pack, or its id. */
  readonly base?: number | string;
  readonly dataAt: number;
}

const objectTypes = { commit: 1, tag: 4, offsetDelta: 6, idDelta: 7 } as const;
const earlyTypes: ReadonlySet<number> = new Set(Object.values(objectTypes));

/** Reads the header of a commit, tag or delta; undefined for other objects and invalid bytes. */
export function readHead(
  bytes: Buffer,
  offset: number,
  idLength: number,
): Head | 'truncated' | undefined {
  let at = offset;
  let byte = bytes[at++];
  if (byte === undefined) return 'truncated';
  const type = (byte >> 4) & 7;
  if (!earlyTypes.has(type)) return undefined;
  let size = byte & 15;
  for (let factor = 16; byte >= 128; factor *= 128) {
    byte = bytes[at++];
    if (byte === undefined) return 'truncated';
    size += (byte & 127) * factor;
    if (factor > maxSize) return undefined;
  }
  switch (type) {
    case objectTypes.commit:
      return { kind: 'commit', size, dataAt: at };
    case objectTypes.tag:
      return { kind: 'tag', size, dataAt: at };
    case objectTypes.idDelta: {
      const dataAt = at + idLength / 2;
      if (dataAt > bytes.length) return 'truncated';
      return { kind: 'delta', size, base: bytes.toString('hex', at, dataAt), dataAt };
    }
    case objectTypes.offsetDelta: {
      let distance = -1;
      do {
        byte = bytes[at++];
        if (byte === undefined) return 'truncated';
        distance = (distance + 1) * 128 + (byte & 127);
        if (distance > offset) return undefined;
      } while (byte >= 128);
      return { kind: 'delta', size, base: offset - distance, dataAt: at };
    }
    default:
      return undefined;
  }
}

export interface Inflated {
  readonly content: Buffer;
  readonly end: number;
}

/** Inflates data of a known size, with no more memory and input than this size needs. */
export function inflateAt(
  bytes: Buffer,
  at: number,
  size: number,
): Inflated | 'truncated' | undefined {
  const maxInputBytes = 2 * size + 1024;
  const input = bytes.subarray(at, at + maxInputBytes);
  try {
    // Node's types lack the option `info`, which makes the function return a buffer and an engine.
    const { buffer, engine } = inflateSync(input, {
      info: true,
      maxOutputLength: Math.max(size, 1),
      chunkSize: size + additionalBytes,
    }) as unknown as { readonly buffer: Buffer; readonly engine: Inflate };
    return buffer.length === size ? { content: buffer, end: at + engine.bytesWritten } : undefined;
  } catch (error) {
    const isTruncated = systemCodeOf(error) === 'Z_BUF_ERROR';
    return isTruncated && input.length < maxInputBytes ? 'truncated' : undefined;
  }
}

/** Returns the result of a delta; undefined if it is invalid. Source: git's patch-delta.c. */
export function applyDelta(base: Buffer, delta: Buffer, maxBytes: number): Buffer | undefined {
  let at = 0;
  const next = (): number => delta[at++] ?? Number.NaN;
  const nextSize = (): number => {
    let size = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = next();
      size += (byte & 127) * factor;
      // The comparison is also false for NaN, which stands for bytes after the end.
      if (!(byte >= 128)) return Number.isNaN(byte) ? Number.NaN : size;
      if (factor > maxSize) return Number.NaN;
    }
  };
  const baseSize = nextSize();
  const size = nextSize();
  if (baseSize !== base.length || !(size <= maxBytes)) return undefined;
  const result = Buffer.alloc(size);
  let filled = 0;
  while (at < delta.length) {
    const command = next();
    let [source, from, length] = [delta, at, command];
    if (command >= 128) {
      const part = (bit: number, factor: number) => ((command & bit) === 0 ? 0 : next() * factor);
      source = base;
      from = part(1, 1) + part(2, 256) + part(4, 65_536) + part(8, 16_777_216);
      length = part(16, 1) + part(32, 256) + part(64, 65_536) || 65_536;
      if (at > delta.length) return undefined;
    } else at += length;
    const isValid = length > 0 && from + length <= source.length && filled + length <= size;
    if (!isValid) return undefined;
    // For short pieces, of which a hostile delta consists, a loop is faster than `copy`.
    if (length < 64)
      for (let byte = 0; byte < length; byte++) result[filled + byte] = source[from + byte] ?? 0;
    else source.copy(result, filled, from, from + length);
    filled += length;
  }
  return filled === size ? result : undefined;
}

/** The id of an object is the hash of its kind, size and content. */
export const idOf = ({ kind, content }: EarlyObject, idLength: number): string =>
  createHash(idLength === 40 ? 'sha1' : 'sha256')
    .update(`${kind} ${content.length}\0`)
    .update(content)
    .digest('hex');

const lineEnd = 0x0a;

/**
 * Returns the ids of a commit's parents. As in git, only `parent` lines directly after the `tree`
 * line count, not similar lines further down. The ids are strings, not views of the content.
 */
export function parentsOf(content: Buffer, idLength: number): readonly string[] {
  const idAfter = (name: string, at: number): string | undefined => {
    const idAt = at + name.length;
    const isLine =
      content.toString('latin1', at, idAt) === name && content[idAt + idLength] === lineEnd;
    return isLine ? content.toString('latin1', idAt, idAt + idLength) : undefined;
  };
  if (idAfter('tree ', 0) === undefined) return [];
  const parents: string[] = [];
  for (let at = 'tree '.length + idLength + 1; ; at += 'parent '.length + idLength + 1) {
    const parent = idAfter('parent ', at);
    if (parent === undefined) return parents;
    parents.push(parent);
  }
}

/** Copies a view of a larger buffer, which the view would keep in memory. */
export function owned(content: Buffer): Buffer {
  if (content.buffer.byteLength <= content.length + additionalBytes) return content;
  const copy = Buffer.alloc(content.length);
  copy.set(content);
  return copy;
}
