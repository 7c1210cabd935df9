import { z } from 'zod/mini';
import { type ArchiveAddress, ArchiveError, hashOf, nameOf } from './layout.ts';
import type { Codec } from './codec.ts';

const count = () => z.int().check(z.minimum(0));

/** Frame: about 100 events, compressed together. */
const frameSchema = z.object({
  /** Stored bytes. */
  bytes: count(),
  events: count(),
  /** Hash of the text. Only frames of the tail have it: the name of a segment replaces it. */
  hash: z.optional(z.string()),
  /** Bytes of the text. Only frames of the tail have it. */
  raw: z.optional(count()),
});

/** Frames in one object, then the checksums of their events' ids, and the words of their texts. */
const segmentSchema = z.object({
  /** Number of events before the first one. */
  start: count(),
  events: count(),
  /** Hash in the name of the object. Absent: the segment is the tail, in the head itself. */
  hash: z.optional(z.string()),
  frames: z.array(frameSchema),
  /** Stored bytes of the checksums. */
  idBytes: count(),
  /** Stored bytes of the words behind the checksums. Absent: none, or the segment is the tail. */
  wordBytes: z.optional(count()),
  /** Words of the tail. Absent: there are too many, or the release that wrote it had none. */
  words: z.optional(z.string()),
  /** Least and greatest timestamp of the events. Absent: an event has none that is comparable. */
  from: z.optional(z.string()),
  to: z.optional(z.string()),
  /** Number of events by kind. Absent: there are too many kinds. */
  kinds: z.optional(z.record(z.string(), count())),
});

const manifestSchema = z.object({
  version: z.literal(1),
  uid: z.string(),
  /** Name of the installation that has written the head. Absent: it was not known. */
  installation: z.optional(z.string()),
  /** Part of the names of all objects. Absent: the archive has never been deleted. */
  salt: z.optional(z.string()),
  segments: z.array(segmentSchema),
  /** Id of the last event. Absent: there are no events. */
  lastId: z.optional(z.string()),
});

export type Frame = z.output<typeof frameSchema>;
export type Segment = z.output<typeof segmentSchema>;
/** The content of a head. Only the last segment may be a tail. */
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

/** Bytes of all segments, as stored, the tail included. */
export const storedBytesOf = ({ segments }: Manifest): number =>
  segments.reduce((sum, segment) => sum + bytesOf(segment), 0);

export const bytesOf = (segment: Segment): number =>
  frameBytesOf(segment) + segment.idBytes + (segment.wordBytes ?? 0);

/** Stored bytes of the frames of a segment, which are in front of its checksums. */
export const frameBytesOf = ({ frames }: Segment): number =>
  frames.reduce((sum, { bytes }) => sum + bytes, 0);

/** Name of the object of a segment that is no tail. */
export const segmentNameOf = ({ start, hash = '' }: Segment): string => nameOf(start, hash);

/** A head: the packed tail, the packed manifest, and the length of the manifest. */
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

/** Manifest and tail of a head. Throws a `damaged` error also for content of another name. */
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
