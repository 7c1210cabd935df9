/**
 * A packet of git's protocol: four hexadecimal digits with the length, which includes the digits,
 * and then the data. The lengths 0, 1 and 2 are markers without data. Sources: git's
 * gitprotocol-common.adoc and gitprotocol-v2.adoc.
 */
export type Packet = Buffer | 'flush' | 'delimiter' | 'end';

class MalformedPacketError extends Error {
  override readonly name = 'MalformedPacketError';
}

const headerBytes = 4;
const maxPacketBytes = 65_520;
const marks: Readonly<Record<number, Packet>> = { 0: 'flush', 1: 'delimiter', 2: 'end' };

export const flush = '0000';
/** Marker between two parts of a version 2 request. */
export const delimiter = '0001';

export const packet = (text: string): string =>
  (Buffer.byteLength(text) + headerBytes).toString(16).padStart(headerBytes, '0') + text;

export const linePacket = (line: string): string => packet(`${line}\n`);

export const lineOf = (data: Buffer): string => data.toString('utf8').replace(/\n$/, '');

/**
 * Calls `read` with the packets of a body, without a truncated last one, and returns its result.
 * Returns undefined if `read` reaches bytes that are not a packet.
 */
export function readPackets<T>(
  body: Buffer,
  read: (packets: IterableIterator<Packet>) => T,
): T | undefined {
  try {
    return read(packetsOf(body));
  } catch (error) {
    if (error instanceof MalformedPacketError) return undefined;
    throw error;
  }
}

function* packetsOf(body: Buffer): Generator<Packet, void, undefined> {
  for (let at = 0; ;) {
    const framed = packetAt(body, at);
    if (framed === 'truncated') return;
    if (framed === 'malformed') throw new MalformedPacketError('This is no packet of git.');
    yield framed.packet;
    at = framed.end;
  }
}

export interface Framed {
  readonly packet: Packet;
  readonly end: number;
}

/** Returns the packet at `at` as a view of `bytes`. `truncated`: `bytes` ends within the packet. */
export function packetAt(bytes: Buffer, at: number): Framed | 'truncated' | 'malformed' {
  const dataAt = at + headerBytes;
  if (dataAt > bytes.length) return 'truncated';
  const header = bytes.toString('latin1', at, dataAt);
  const length = /^[0-9a-fA-F]{4}$/.test(header) ? Number.parseInt(header, 16) : Number.NaN;
  const mark = marks[length];
  if (mark !== undefined) return { packet: mark, end: dataAt };
  if (!(length >= headerBytes && length <= maxPacketBytes)) return 'malformed';
  const end = at + length;
  return end > bytes.length ? 'truncated' : { packet: bytes.subarray(dataAt, end), end };
}

/** Side bands of a response: `data` has the packets of the service, `progress` texts for people. */
export const sideBand = { data: 1, progress: 2 } as const;

/** Returns packets that carry bytes in a side band. Source: git's gitprotocol-pack.adoc. */
export function bandPackets(band: 1 | 2, bytes: Buffer): Buffer {
  const maxBytes = maxPacketBytes - headerBytes - 1;
  const packets: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += maxBytes) {
    const data = bytes.subarray(at, at + maxBytes);
    const length = (data.length + headerBytes + 1).toString(16).padStart(headerBytes, '0');
    packets.push(Buffer.from(length), Buffer.of(band), data);
  }
  return Buffer.concat(packets);
}
