import { z } from 'zod/mini';
import { type ArchiveAddress, ArchiveError, hashOf, nameOf } from './layout.ts';
import type { Codec } from './codec.ts';

const count = () => z.int().check(z.minimum(0));

/** A frame is a group of about 100 events that are compressed together. */
const frameSchema = z.object({
  /** Stored bytes. */
  bytes: count(),
  events: count(),
  /** Hash of the text. Absent outside a tail: the segment's name has a hash of all its frames. */
  hash: z.optional(z.string()),
  /** Bytes of the uncompressed text. Absent outside a tail. */
  raw: z.optional(count()),
});

/** A segment has frames, then the checksums of the events' ids, then the words of their texts. */
const segmentSchema = z.object({
  /** Number of events in the archive before this segment. */
  start: count(),
  events: count(),
  /** Hash in the name of the object. Absent: this segment is the tail, which the head contains. */
  hash: z.optional(z.string()),
  frames: z.array(frameSchema),
  /** Stored bytes of the checksums. */
  idBytes: count(),
  /** Stored bytes of the words. Absent: there are no words, or the segment is the tail. */
  wordBytes: z.optional(count()),
  /** Words of the tail. Absent: there are too many, or an earlier release has written the tail. */
  words: z.optional(z.string()),
  /** First and last timestamp of the events. Absent: an event has no comparable timestamp. */
  from: z.optional(z.string()),
  to: z.optional(z.string()),
  /** Number of events of each kind. Absent: there are too many kinds. */
  kinds: z.optional(z.record(z.string(), count())),
});

const manifestSchema = z.object({
  version: z.literal(1),
  uid: z.string(),
  /** Name of the installation that has written the head. Absent: its name was unknown. */
  installation: z.optional(z.string()),
  /** Input of the hashes in the names of heads and segments. Absent: there was no deletion. */
  salt: z.optional(z.string()),
  segments: z.array(segmentSchema),
  /** Id of the last event. Absent: there are no events. */
  lastId: z.optional(z.string()),
});

export type Frame = z.output<typeof frameSchema>;
export type Segment = z.output<typeof segmentSchema>;
/** JSON in a head. Only the last segment may be a tail, a segment that the head itself contains. */
export type Manifest = z.output<typeof manifestSchema>;

const lengthBytes = 4;
const place = 'manifest';

export const emptyManifest = ({ uid }: ArchiveAddress, salt?: string): Manifest => ({
  version: 1,
  uid,
  ...(salt === undefined ? {} : { salt }),
  segments: [],
});

export const eventsOf = ({ segments }: Manifest): number => {
  const last = segments.at(-1);
  return last === undefined ? 0 : last.start + last.events;
};

/** Stored bytes of all segments, including the tail. */
export const storedBytesOf = ({ segments }: Manifest): number =>
  segments.reduce((sum, segment) => sum + bytesOf(segment), 0);

export const bytesOf = (segment: Segment): number =>
  frameBytesOf(segment) + segment.idBytes + (segment.wordBytes ?? 0);

/** Stored bytes of the frames, which precede the checksums in the object. */
export const frameBytesOf = ({ frames }: Segment): number =>
  frames.reduce((sum, { bytes }) => sum + bytes, 0);

/** Name of a segment's object. A tail has no object. */
export const segmentNameOf = ({ start, hash = '' }: Segment): string => nameOf(start, hash);

/** A head has the packed tail, the packed manifest, and the length of the packed manifest. */
export function packHead(
  codec: Codec,
  address: ArchiveAddress,
  manifest: Manifest,
  tail: Uint8Array,
): { readonly name: string; readonly body: Buffer } {
  const json = Buffer.from(JSON.stringify(manifest));
  const packed = codec.pack(address, place, json);
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32LE(packed.length);
  return {
    name: nameOf(eventsOf(manifest), hashOf(json)),
    body: Buffer.concat([tail, packed, length]),
  };
}

/** Manifest and tail of a head. Throws `damaged` for invalid content, or that of another head. */
export function unpackHead(
  codec: Codec,
  address: ArchiveAddress,
  name: string,
  body: Buffer,
): { readonly manifest: Manifest; readonly tail: Buffer } {
  const damaged = (cause?: unknown) =>
    new ArchiveError('damaged', `The head ${name} of the archive ${address.uid} is damaged.`, {
      cause,
    });
  if (body.length < lengthBytes) throw damaged();
  const end = body.length - lengthBytes;
  const start = end - body.readUInt32LE(end);
  if (start < 0) throw damaged();
  const json = codec.unpack(address, place, body.subarray(start, end)).toString();
  const manifest = parse(json);
  if (manifest === undefined || manifest.uid !== address.uid) throw damaged();
  if (name !== nameOf(eventsOf(manifest), hashOf(json))) throw damaged();
  const tail = manifest.segments.at(-1);
  const tailBytes = tail === undefined || tail.hash !== undefined ? 0 : bytesOf(tail);
  if (tailBytes !== start) throw damaged();
  return { manifest, tail: body.subarray(0, start) };
}

function parse(json: string): Manifest | undefined {
  try {
    return manifestSchema.safeParse(JSON.parse(json)).data;
  } catch {
    return undefined;
  }
}
