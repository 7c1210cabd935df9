import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { type ArchiveAddress, ArchiveError, isGone, keyOf } from './layout.ts';
import type { Codec } from './codec.ts';
import {
  emptyManifest,
  frameBytesOf,
  segmentNameOf,
  unpackHead,
  type Manifest,
  type Segment,
} from './manifest.ts';
import {
  checksumOf,
  checksumsIn,
  framePlace,
  idOf,
  idsPlace,
  linesOf,
  wordsPlace,
} from './segment-builder.ts';

const segmentsAtOnce = 8;

export interface ArchiveObjects {
  readonly store: ObjectStore;
  readonly codec: Codec;
}

export interface FrameLines {
  /** Number of events in the archive before the first line. */
  readonly position: number;
  /** JSON in UTF-8. */
  readonly lines: readonly Buffer[];
}

/** An archive whose head is in memory. Methods read other parts only when needed. */
export class OpenArchive {
  readonly address: ArchiveAddress;
  readonly manifest: Manifest;
  /** The packed tail segment; empty if there is none. */
  readonly tail: Buffer;
  readonly #objects: ArchiveObjects;
  /** Checksums that were read before, 4 bytes for each event. */
  readonly #checksums = new Map<Segment, Uint32Array>();

  private constructor(
    objects: ArchiveObjects,
    address: ArchiveAddress,
    { manifest, tail }: { readonly manifest: Manifest; readonly tail: Buffer },
  ) {
    this.#objects = objects;
    this.address = address;
    this.manifest = manifest;
    this.tail = tail;
  }

  /**
   * Reads a head. Without a head, the archive is empty. Throws `StoreError`, and `ArchiveError` if
   * the head does not exist or is damaged.
   */
  static async open(
    objects: ArchiveObjects,
    address: ArchiveAddress,
    head: string | undefined,
    signal?: AbortSignal,
  ): Promise<OpenArchive> {
    if (head === undefined)
      return new OpenArchive(objects, address, {
        manifest: emptyManifest(address),
        tail: Buffer.alloc(0),
      });
    const body = await objects.store.get(keyOf(address, 'h', head), { signal });
    if (body === undefined) throw gone(`head ${head}`, address);
    return new OpenArchive(objects, address, unpackHead(objects.codec, address, head, body));
  }

  /** Reads frames in one request. Throws `ArchiveError` if a frame has a wrong number of events. */
  async frames(
    segment: Segment,
    from: number,
    to: number,
    signal?: AbortSignal,
  ): Promise<readonly FrameLines[]> {
    const before = segment.frames.slice(0, from);
    const wanted = segment.frames.slice(from, to);
    let offset = sum(before.map(({ bytes }) => bytes));
    const length = sum(wanted.map(({ bytes }) => bytes));
    const body = await this.#read(segment, { offset, length }, signal);
    let position = segment.start + sum(before.map(({ events }) => events));
    offset = 0;
    return wanted.map(({ bytes, events }) => {
      const packed = body.subarray(offset, offset + bytes);
      const text = this.#objects.codec.unpack(this.address, framePlace(position), packed);
      const lines = linesOf(text);
      if (lines.length !== events)
        throw new ArchiveError(
          'damaged',
          `The frame at ${position} of the archive ${this.address.uid} has ${lines.length} events in place of ${events}.`,
        );
      const frame = { position, lines };
      offset += bytes;
      position += events;
      return frame;
    });
  }

  /** The checksums of a segment's ids, in the order of its events. */
  async checksums(segment: Segment, signal?: AbortSignal): Promise<Uint32Array> {
    const known = this.#checksums.get(segment);
    if (known !== undefined) return known;
    const range = { offset: frameBytesOf(segment), length: segment.idBytes };
    const packed = await this.#read(segment, range, signal);
    const ids = this.#objects.codec.unpack(this.address, idsPlace(segment.start), packed);
    const checksums = checksumsIn(ids);
    this.#checksums.set(segment, checksums);
    return checksums;
  }

  /** Text of the `WordList`. Undefined if it is missing or damaged: search the events instead. */
  async words(segment: Segment, signal?: AbortSignal): Promise<string | undefined> {
    const { hash, idBytes, wordBytes } = segment;
    if (hash === undefined) return segment.words;
    if (wordBytes === undefined) return undefined;
    const range = { offset: frameBytesOf(segment) + idBytes, length: wordBytes };
    try {
      const packed = await this.#read(segment, range, signal);
      return this.#objects.codec.unpack(this.address, wordsPlace(segment.start), packed).toString();
    } catch (error) {
      if (error instanceof ArchiveError && !isGone(error)) return undefined;
      throw error;
    }
  }

  /**
   * Position of the event with this id; undefined if the archive has no such event. The search
   * reads and caches the checksums of the segments, the newest first with `descending`.
   */
  async locate(id: string, descending: boolean, signal?: AbortSignal): Promise<number | undefined> {
    const checksum = checksumOf(id);
    const { segments } = this.manifest;
    const ordered = descending ? segments.toReversed() : segments;
    for (const [at, segment] of ordered.entries()) {
      if (at % segmentsAtOnce === 0) {
        const ahead = ordered.slice(at, at + segmentsAtOnce);
        await Promise.all(ahead.map((each) => this.checksums(each, signal)));
      }
      const checksums = await this.checksums(segment, signal);
      for (let index = checksums.indexOf(checksum); index !== -1;) {
        if ((await this.#idAt(segment, index, signal)) === id) return segment.start + index;
        index = checksums.indexOf(checksum, index + 1);
      }
    }
    return undefined;
  }

  async #idAt(segment: Segment, index: number, signal?: AbortSignal): Promise<unknown> {
    let before = 0;
    const frame = segment.frames.findIndex(({ events }) => {
      before += events;
      return before > index;
    });
    const [read] = await this.frames(segment, frame, frame + 1, signal);
    const line = read?.lines[segment.start + index - read.position];
    return line === undefined ? undefined : idOf(line);
  }

  async #read(
    segment: Segment,
    range: { readonly offset: number; readonly length: number },
    signal?: AbortSignal,
  ): Promise<Buffer> {
    const { offset, length } = range;
    if (segment.hash === undefined) return this.tail.subarray(offset, offset + length);
    const name = segmentNameOf(segment);
    const body = await this.#objects.store.get(keyOf(this.address, 's', name), { range, signal });
    if (body === undefined) throw gone(`segment ${name}`, this.address);
    if (body.length !== length)
      throw new ArchiveError(
        'damaged',
        `The segment ${name} of the archive ${this.address.uid} is too short.`,
      );
    return body;
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

const gone = (what: string, { uid }: ArchiveAddress): ArchiveError =>
  new ArchiveError('gone', `The ${what} of the archive ${uid} does not exist.`);
