/**
 * Git's framing: four hex digits of length, these included, then the data. Source: git's
 * Documentation/gitprotocol-common.adoc.
 */
export type Packet = Buffer | 'flush' | 'delimiter' | 'end';

export class MalformedPacketError extends Error {
  override readonly name = 'MalformedPacketError';
}

const headerBytes = 4;
const maxPacketBytes = 65_520;
const special: Readonly<Record<number, Packet>> = { 0: 'flush', 1: 'delimiter', 2: 'end' };

/**
 * Yields the packets of a body. A truncated last packet is left out; throws `MalformedPacketError`
 * at bytes that are no packet.
 */
export function* packetsOf(body: Buffer): Generator<Packet, void, undefined> {
  for (let at = 0; at + headerBytes <= body.length;) {
    const header = body.toString('latin1', at, at + headerBytes);
    const length = /^[0-9a-fA-F]{4}$/.test(header) ? Number.parseInt(header, 16) : Number.NaN;
    const mark = special[length];
    if (mark !== undefined) {
      yield mark;
      at += headerBytes;
      continue;
    }
    if (!(length >= headerBytes && length <= maxPacketBytes))
      throw new MalformedPacketError('This is no packet of git.');
    if (at + length > body.length) return;
    yield body.subarray(at + headerBytes, at + length);
    at += length;
  }
}

export const packet = (text: string): string =>
  (Buffer.byteLength(text) + headerBytes).toString(16).padStart(headerBytes, '0') + text;
export const flush = '0000';
export const delimiter = '0001';
