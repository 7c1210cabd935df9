const closeOpcode = 0x8;
const maskedBit = 0x80;
const headerBytes = 2;
const maskBytes = 4;

/** Follows where WebSocket frames (RFC 6455 §5.2) begin and end in one direction of a connection, and keeps nothing of them. */
export class FrameFollower {
  #seen = 0;
  #needed = headerBytes;
  #lengthEnd = headerBytes;
  #opcode = 0;
  #length = 0;
  #left = 0;
  #hasData = false;
  #hasClose = false;

  /** Whether a frame may be put in here: before, between and behind frames, also within a message of several. */
  get isBetweenFrames(): boolean {
    return this.#left === 0 && this.#seen === 0;
  }

  /** Whether a frame of a message has begun. */
  get hasData(): boolean {
    return this.#hasData;
  }

  get hasClose(): boolean {
    return this.#hasClose;
  }

  /** Reads a chunk, or only to the end of the frame that it begins in. Returns how many bytes that was. */
  read(chunk: Uint8Array, toFrameEnd = false): number {
    let at = 0;
    while (at < chunk.length) {
      if (this.#left > 0) {
        const step = Math.min(this.#left, chunk.length - at);
        this.#left -= step;
        at += step;
      } else {
        this.#readHeaderByte(chunk[at] ?? 0);
        at += 1;
      }
      if (toFrameEnd && this.isBetweenFrames) break;
    }
    return at;
  }

  #readHeaderByte(byte: number): void {
    if (this.#seen === 0) {
      this.#opcode = byte & 0x0f;
    } else if (this.#seen === 1) {
      const length = byte & 0x7f;
      const extended = length === 126 ? 2 : length === 127 ? 8 : 0;
      this.#length = extended === 0 ? length : 0;
      this.#lengthEnd = headerBytes + extended;
      this.#needed = this.#lengthEnd + ((byte & maskedBit) === 0 ? 0 : 4);
    } else if (this.#seen < this.#lengthEnd) {
      this.#length = this.#length * 256 + byte;
    }
    this.#seen += 1;
    if (this.#seen < this.#needed) return;
    this.#left = this.#length;
    this.#seen = 0;
    this.#needed = headerBytes;
    if (this.#opcode < closeOpcode) this.#hasData = true;
    else if (this.#opcode === closeOpcode) this.#hasClose = true;
  }
}

/** The head of a frame, decoded. */
export interface FrameHead {
  /** The first byte: FIN, reserved bits and opcode. */
  readonly head: number;
  readonly length: number;
  readonly payloadStart: number;
  readonly isMasked: boolean;
}

/** The head of the frame that begins here; undefined while it is not complete. */
export function frameHeadOf(bytes: Buffer): FrameHead | undefined {
  const [head, second] = bytes;
  if (head === undefined || second === undefined) return undefined;
  const short = second & 0x7f;
  const extended = short === 126 ? 2 : short === 127 ? 8 : 0;
  const isMasked = (second & maskedBit) !== 0;
  const payloadStart = headerBytes + extended + (isMasked ? maskBytes : 0);
  if (bytes.length < payloadStart) return undefined;
  const length = extended === 2 ? bytes.readUInt16BE(2) : extended === 8 ? Number(bytes.readBigUInt64BE(2)) : short;
  return { head, length, payloadStart, isMasked };
}

/** The payload of a masked frame. */
export function unmasked(frame: Buffer, payloadStart: number): Buffer {
  const payload = Buffer.from(frame.subarray(payloadStart));
  for (let index = 0; index < payload.length; index++) {
    payload[index] = (payload[index] ?? 0) ^ (frame[payloadStart - maskBytes + (index % maskBytes)] ?? 0);
  }
  return payload;
}

/** A text message of less than 64 KiB in one frame towards a server, masked by zeros as `closeFrame`. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  const { length } = payload;
  const size = length < 126 ? [maskedBit | length] : [maskedBit | 126, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([0x81, ...size, 0, 0, 0, 0]), payload]);
}

/** Why the gateway ends a connection, RFC 6455 §7.4.1 and the registry it makes; 4001 is what agents say of a wrong key. */
export const CloseCode = {
  goingAway: 1001,
  policyViolation: 1008,
  serviceRestart: 1012,
  tryAgainLater: 1013,
  authenticationFailed: 4001,
} as const;
export type CloseCode = (typeof CloseCode)[keyof typeof CloseCode];

/** A close frame. Towards a server it has to be masked, if only by zeros: what is in it is no secret, and chosen by nobody. */
export function closeFrame(code: CloseCode, towards: 'client' | 'server'): Buffer {
  const payload = Buffer.of(code >> 8, code & 0xff);
  const start = towards === 'client' ? [0x88, payload.length] : [0x88, maskedBit | payload.length, 0, 0, 0, 0];
  return Buffer.concat([Buffer.from(start), payload]);
}
