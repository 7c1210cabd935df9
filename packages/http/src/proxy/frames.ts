const closeOpcode = 0x8;
const maskedBit = 0x80;
const headerBytes = 2;
const maskBytes = 4;
/** Head with an 8-byte length and a mask. */
const maxHeadBytes = 14;

/** Finds the ends of WebSocket frames (RFC 6455 §5.2) in one direction; keeps no payload. */
export class FrameFollower {
  /** Head of the present frame, as far as it has arrived. */
  #head = Buffer.alloc(0);
  /** Bytes of the payload that have not arrived. */
  #left = 0;
  #hasClose = false;

  /** Whether a frame may be inserted now: not within a frame, but between those of a message. */
  get isBetweenFrames(): boolean {
    return this.#left === 0 && this.#head.length === 0;
  }

  get hasClose(): boolean {
    return this.#hasClose;
  }

  /**
   * Reads a chunk, or only to the end of the frame that the chunk begins in. Returns the number of
   * bytes read.
   */
  read(chunk: Buffer, toFrameEnd = false): number {
    let at = 0;
    while (at < chunk.length) {
      if (this.#left > 0) {
        const step = Math.min(this.#left, chunk.length - at);
        this.#left -= step;
        at += step;
      } else {
        at += this.#readHead(chunk.subarray(at, at + maxHeadBytes - this.#head.length));
      }
      if (toFrameEnd && this.isBetweenFrames) break;
    }
    return at;
  }

  /** Returns the number of bytes that belong to the head. */
  #readHead(bytes: Buffer): number {
    const known = this.#head.length;
    const head = known === 0 ? bytes : Buffer.concat([this.#head, bytes]);
    const frame = frameHeadOf(head);
    if (frame === undefined) {
      this.#head = Buffer.from(head);
      return bytes.length;
    }
    this.#head = Buffer.alloc(0);
    this.#left = frame.length;
    if ((frame.head & 0x0f) === closeOpcode) this.#hasClose = true;
    return frame.payloadStart - known;
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
  const length =
    extended === 2
      ? bytes.readUInt16BE(2)
      : extended === 8
        ? Number(bytes.readBigUInt64BE(2))
        : short;
  return { head, length, payloadStart, isMasked };
}

/** The payload of a masked frame. */
export function unmasked(frame: Buffer, payloadStart: number): Buffer {
  const payload = Buffer.from(frame.subarray(payloadStart));
  for (let index = 0; index < payload.length; index++) {
    payload[index] =
      (payload[index] ?? 0) ^ (frame[payloadStart - maskBytes + (index % maskBytes)] ?? 0);
  }
  return payload;
}

/** A text frame of less than 64 KiB towards a server, masked by zeros as `closeFrame`. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  const { length } = payload;
  const size = length < 126 ? [maskedBit | length] : [maskedBit | 126, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([0x81, ...size, 0, 0, 0, 0]), payload]);
}

/** Close codes of RFC 6455 §7.4.1 and its registry; an application chose `authenticationFailed`. */
export const CloseCode = {
  goingAway: 1001,
  policyViolation: 1008,
  serviceRestart: 1012,
  tryAgainLater: 1013,
  authenticationFailed: 4001,
} as const;
export type CloseCode = (typeof CloseCode)[keyof typeof CloseCode];

/** A close frame. One to a server is masked, by zeros, because no peer has chosen the payload. */
export function closeFrame(code: CloseCode, towards: 'client' | 'server'): Buffer {
  const payload = Buffer.of(code >> 8, code & 0xff);
  const start =
    towards === 'client' ? [0x88, payload.length] : [0x88, maskedBit | payload.length, 0, 0, 0, 0];
  return Buffer.concat([Buffer.from(start), payload]);
}
