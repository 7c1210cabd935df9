const closeOpcode = 0x8;
const maskedBit = 0x80;
const headerBytes = 2;

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

/** Why the gateway ends a connection, RFC 6455 §7.4.1 and the registry it makes. */
export const CloseCode = { goingAway: 1001, policyViolation: 1008, serviceRestart: 1012, tryAgainLater: 1013 } as const;
export type CloseCode = (typeof CloseCode)[keyof typeof CloseCode];

/** A close frame. Towards a server it has to be masked, if only by zeros: what is in it is no secret, and chosen by nobody. */
export function closeFrame(code: CloseCode, towards: 'client' | 'server'): Buffer {
  const payload = Buffer.of(code >> 8, code & 0xff);
  const start = towards === 'client' ? [0x88, payload.length] : [0x88, maskedBit | payload.length, 0, 0, 0, 0];
  return Buffer.concat([Buffer.from(start), payload]);
}
