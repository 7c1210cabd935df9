import { crc32 } from 'node:zlib';
import { type ArchiveAddress, hashOf } from './layout.ts';
import type { AgentEvent } from './agent-event.ts';
import type { Codec } from './codec.ts';
import type { Segment } from './manifest.ts';
import { folded, wordsOf } from './text-fold.ts';

/** Maximum characters of a `WordList`. A segment with more words, such as base64, has no list. */
const maxLength = 256 * 1024;

/**
 * The distinct words of a segment's texts, separated by spaces. A search reads the events of a
 * segment only if its list contains the words of the query.
 */
class WordList {
  readonly #words: Set<string>;
  #length: number;

  /** @param text `text` of a list to continue. */
  constructor(text = '') {
    this.#words = new Set(text === '' ? [] : text.split(' '));
    // The length includes a space after the last word, as in `add`.
    this.#length = text === '' ? 0 : text.length + 1;
  }

  /** UTF-16 units of the words, including a space after each word. */
  get length(): number {
    return this.#length;
  }

  get text(): string {
    return [...this.#words].join(' ');
  }

  /** Adds the words of texts. Returns false if the list is now too long and must not be used. */
  add(texts: readonly string[]): boolean {
    for (const text of texts)
      for (const word of wordsOf(folded(text))) {
        if (this.#words.has(word)) continue;
        this.#length += word.length + 1;
        if (this.#length > maxLength) return false;
        this.#words.add(word);
      }
    return true;
  }
}

/** Maximum events of a frame, and bytes of text after which a frame is full. */
export const frameEvents = 100;
export const frameBytes = 256 * 1024;
/** Maximum bytes of a segment's text. A single event may be larger. */
export const segmentBytes = 1024 * 1024;
const maxKinds = 32;

/**
 * A segment as stored: frames, checksums of the ids, and the words for searches. The last segment,
 * which still grows, has no words in `body`.
 */
export interface PackedSegment {
  readonly segment: Segment;
  readonly body: Buffer;
}

/** Name of a frame for `Codec.pack`, by the position of its first event. */
export const framePlace = (position: number): string => `frame ${position}`;
export const idsPlace = (start: number): string => `ids ${start}`;
export const wordsPlace = (start: number): string => `words ${start}`;

const lineEnd = Buffer.from('\n');
const idChecksumBytes = 4;
export const checksumOf = (id: string): number => crc32(id);

export function checksumsIn(ids: Buffer): Uint32Array {
  const checksums = new Uint32Array(ids.length / idChecksumBytes);
  for (let index = 0; index < checksums.length; index++)
    checksums[index] = ids.readUInt32LE(index * idChecksumBytes);
  return checksums;
}

interface TailFrame {
  readonly frame: {
    readonly bytes: number;
    readonly events: number;
    readonly hash: string;
    readonly raw: number;
  };
  readonly body: Buffer;
}

interface OpenFrame {
  readonly position: number;
  readonly lines: Buffer[];
  raw: number;
}

/**
 * Packs events into one segment. The same start and events always give the same content and frames,
 * so that two writers of the same events write the same segment. The hash in the segment's name
 * also contains the salt.
 */
export class SegmentBuilder {
  readonly #salt: string;
  readonly #codec: Codec;
  readonly #address: ArchiveAddress;
  readonly #start: number;
  readonly #frames: TailFrame[] = [];
  /** Checksums of the ids, in the order of the events. */
  readonly #checksums: number[] = [];
  readonly #tailChecksums = new Set<number>();
  /** Ids in the continued tail. `has` reads these ids when it finds an equal checksum. */
  #ids: Set<string> | undefined;
  /** Undefined if the words are unknown or too many. */
  #words: WordList | undefined = new WordList();
  #open: OpenFrame;
  #raw = 0;
  #from: string | undefined;
  #to: string | undefined;
  #comparable = true;
  #kinds: Map<string, number> | undefined = new Map();

  constructor(codec: Codec, address: ArchiveAddress, start: number, salt = '') {
    this.#salt = salt;
    this.#codec = codec;
    this.#address = address;
    this.#start = start;
    this.#open = { position: start, lines: [], raw: 0 };
  }

  /** Continues a tail, and may fill its last frame. Throws `ArchiveError` for a damaged tail. */
  static of(
    codec: Codec,
    address: ArchiveAddress,
    { segment, body }: PackedSegment,
    salt = '',
  ): SegmentBuilder {
    const builder = new SegmentBuilder(codec, address, segment.start, salt);
    let offset = 0;
    let position = segment.start;
    for (const { bytes, events, hash = '', raw = 0 } of segment.frames) {
      const packed = body.subarray(offset, offset + bytes);
      builder.#frames.push({ frame: { bytes, events, hash, raw }, body: packed });
      builder.#raw += raw;
      offset += bytes;
      position += events;
    }
    const ids = codec.unpack(address, idsPlace(segment.start), body.subarray(offset));
    for (const checksum of checksumsIn(ids)) {
      builder.#checksums.push(checksum);
      builder.#tailChecksums.add(checksum);
    }
    builder.#from = segment.from;
    builder.#to = segment.to;
    builder.#comparable = segment.events === 0 || segment.from !== undefined;
    builder.#kinds =
      segment.kinds === undefined ? undefined : new Map(Object.entries(segment.kinds));
    if (segment.words !== undefined) builder.#words = new WordList(segment.words);
    else if (segment.events > 0) builder.#words = undefined;
    builder.#open = { position, lines: [], raw: 0 };
    const last = builder.#frames.at(-1);
    if (last !== undefined && !isFull(last.frame)) builder.#reopen(last);
    return builder;
  }

  get end(): number {
    return this.#start + this.#checksums.length;
  }

  get isEmpty(): boolean {
    return this.#checksums.length === 0;
  }

  /** Whether full frames and words reach `bytes` stored bytes. Packs the words only if needed. */
  reaches(bytes: number): boolean {
    const words = this.#words;
    if (this.bytes >= bytes) return true;
    // The words have at most three bytes for each character, and fewer when packed.
    if (words === undefined || this.bytes + 3 * words.length < bytes) return false;
    return this.bytes + this.#packedWords(words.text).length >= bytes;
  }

  #packedWords(text: string): Buffer {
    return this.#codec.pack(this.#address, wordsPlace(this.#start), Buffer.from(text));
  }

  /** Stored bytes of the full frames. */
  get bytes(): number {
    return this.#frames.reduce((sum, { body }) => sum + body.length, 0);
  }

  /**
   * Whether the tail that this builder continues has an event with this id. The caller knows the
   * ids that it adds. Unpacks each frame at most once, as agents can choose ids with equal
   * checksums.
   */
  has(id: string): boolean {
    if (!this.#tailChecksums.has(checksumOf(id))) return false;
    this.#ids ??= this.#readIds();
    return this.#ids.has(id);
  }

  /** Whether the event belongs to the next segment, so that this one is complete. */
  isFullFor({ json }: AgentEvent): boolean {
    return !this.isEmpty && this.#raw + json.length + 1 > segmentBytes;
  }

  add(event: AgentEvent): void {
    const { id, kind, timestamp, json, texts } = event;
    const bytes = json.length + 1;
    this.#open.lines.push(json);
    this.#open.raw += bytes;
    this.#raw += bytes;
    this.#checksums.push(checksumOf(id));
    this.#observe(kind, timestamp);
    if (this.#words?.add(texts) === false) this.#words = undefined;
    if (this.#open.lines.length >= frameEvents || this.#open.raw >= frameBytes) this.#closeFrame();
  }

  tail(): PackedSegment {
    const { segment, body } = this.#pack([...this.#frames, ...this.#openFrame()]);
    const words = this.#words?.text;
    return { segment: { ...segment, ...(words === undefined ? {} : { words }) }, body };
  }

  /** Completes the segment. Do not use the builder after this call. */
  complete(): PackedSegment {
    const frames = [...this.#frames, ...this.#openFrame()];
    const { segment, body } = this.#pack(frames);
    const short = segment.frames.map(({ bytes, events }) => ({ bytes, events }));
    const parts = [this.#salt, this.#codec.variant, ...frames.map(({ frame }) => frame.hash)];
    const text = this.#words?.text;
    if (text === undefined)
      return { segment: { ...segment, hash: hashOf(...parts), frames: short }, body };
    const words = this.#packedWords(text);
    // The words are part of the hash: the same events without words are another object.
    const hash = hashOf(...parts, text);
    return {
      segment: { ...segment, hash, frames: short, wordBytes: words.length },
      body: Buffer.concat([body, words]),
    };
  }

  #pack(frames: readonly TailFrame[]): PackedSegment {
    const ids = Buffer.alloc(this.#checksums.length * idChecksumBytes);
    this.#checksums.forEach((one, index) => ids.writeUInt32LE(one, index * idChecksumBytes));
    const packedIds = this.#codec.pack(this.#address, idsPlace(this.#start), ids);
    const segment: Segment = {
      start: this.#start,
      events: this.#checksums.length,
      frames: frames.map(({ frame }) => frame),
      idBytes: packedIds.length,
      ...(this.#comparable && this.#from !== undefined && this.#to !== undefined
        ? { from: this.#from, to: this.#to }
        : {}),
      ...(this.#kinds === undefined ? {} : { kinds: Object.fromEntries(this.#kinds) }),
    };
    return { segment, body: Buffer.concat([...frames.map(({ body }) => body), packedIds]) };
  }

  #openFrame(): readonly TailFrame[] {
    const { position, lines, raw } = this.#open;
    if (lines.length === 0) return [];
    const text = textOf(lines);
    const body = this.#codec.pack(this.#address, framePlace(position), text);
    return [{ frame: { bytes: body.length, events: lines.length, hash: hashOf(text), raw }, body }];
  }

  #closeFrame(): void {
    this.#frames.push(...this.#openFrame());
    this.#open = { position: this.end, lines: [], raw: 0 };
  }

  #reopen({ frame, body }: TailFrame): void {
    this.#frames.pop();
    const position = this.#open.position - frame.events;
    const text = this.#codec.unpack(this.#address, framePlace(position), body);
    this.#open = { position, lines: linesOf(text), raw: frame.raw };
  }

  #readIds(): Set<string> {
    const ids = new Set<string>();
    let position = this.#start;
    for (const { frame, body } of this.#frames) {
      const text = this.#codec.unpack(this.#address, framePlace(position), body);
      for (const line of linesOf(text)) ids.add(idOf(line));
      position += frame.events;
    }
    for (const line of this.#open.lines) ids.add(idOf(line));
    return ids;
  }

  #observe(kind: string, timestamp: string | undefined): void {
    if (timestamp === undefined) this.#comparable = false;
    else {
      if (this.#from === undefined || timestamp < this.#from) this.#from = timestamp;
      if (this.#to === undefined || timestamp > this.#to) this.#to = timestamp;
    }
    const kinds = this.#kinds;
    if (kinds === undefined) return;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    if (kinds.size > maxKinds) this.#kinds = undefined;
  }
}

const isFull = ({ events, raw }: TailFrame['frame']): boolean =>
  events >= frameEvents || raw >= frameBytes;

export const textOf = (lines: readonly Buffer[]): Buffer =>
  Buffer.concat(lines.flatMap((line) => [line, lineEnd]));

export function linesOf(text: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = text.indexOf(lineEnd); end !== -1; end = text.indexOf(lineEnd, start)) {
    lines.push(text.subarray(start, end));
    start = end + 1;
  }
  return lines;
}

export const idOf = (json: Buffer): string =>
  (JSON.parse(json.toString()) as { readonly id: string }).id;
