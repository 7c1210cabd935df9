import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock, Timer } from '@conversation-operator/base/clock';

const closeOpcode = 0x8;
const maskedBit = 0x80;
const headerBytes = 2;
const maskBytes = 4;
/** Size of the longest head of a frame, which has a length field of 8 bytes and a mask. */
const maxHeadBytes = 14;

/** Finds the ends of WebSocket frames (RFC 6455 §5.2) in one direction; keeps no payload. */
export class FrameFollower {
  /** Head of the current frame, as far as it has arrived. */
  #head = Buffer.alloc(0);
  /** Bytes of the payload that have not arrived. */
  #left = 0;
  #hasClose = false;

  /** Whether another frame may be inserted now, possibly between two frames of one message. */
  get isBetweenFrames(): boolean {
    return this.#left === 0 && this.#head.length === 0;
  }

  get hasClose(): boolean {
    return this.#hasClose;
  }

  /** Reads a chunk, with `toFrameEnd` only to the first end of a frame. Returns the length read. */
  read(chunk: Buffer, { toFrameEnd = false } = {}): number {
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

interface FrameHead {
  /** The first byte: FIN, reserved bits and opcode. */
  readonly head: number;
  readonly length: number;
  readonly payloadStart: number;
  readonly isMasked: boolean;
}

/** Returns the head of the frame with which the bytes begin; undefined if incomplete. */
function frameHeadOf(bytes: Buffer): FrameHead | undefined {
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

function unmasked(frame: Buffer, payloadStart: number): Buffer {
  const payload = Buffer.from(frame.subarray(payloadStart));
  for (let index = 0; index < payload.length; index++) {
    payload[index] =
      (payload[index] ?? 0) ^ (frame[payloadStart - maskBytes + (index % maskBytes)] ?? 0);
  }
  return payload;
}

/** Returns a text frame below 64 KiB for a server, masked with zeros like `closeFrame`. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  const { length } = payload;
  const size = length < 126 ? [maskedBit | length] : [maskedBit | 126, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([0x81, ...size, 0, 0, 0, 0]), payload]);
}

/** Close codes of RFC 6455 §7.4.1 and the IANA registry; agents define `authenticationFailed`. */
export const CloseCode = {
  goingAway: 1001,
  policyViolation: 1008,
  serviceRestart: 1012,
  tryAgainLater: 1013,
  authenticationFailed: 4001,
} as const;
export type CloseCode = (typeof CloseCode)[keyof typeof CloseCode];

/**
 * Returns a close frame. A frame for a server has a mask of zeros, because a random mask only
 * protects against payloads that an attacker chose.
 */
export function closeFrame(code: CloseCode, towards: 'client' | 'server'): Buffer {
  const payload = Buffer.of(code >> 8, code & 0xff);
  const start =
    towards === 'client' ? [0x88, payload.length] : [0x88, maskedBit | payload.length, 0, 0, 0, 0];
  return Buffer.concat([Buffer.from(start), payload]);
}

/** Time limits of forwarding, in milliseconds. */
export interface ForwardingLimits {
  /** Maximum time to connect to the upstream. */
  readonly connectMs: number;
  /** Maximum time until the first byte of a response. An agent may execute a long task first. */
  readonly firstByteMs: number;
  /** Maximum time between two chunks of a response, or of either side of a WebSocket. */
  readonly idleMs: number;
  /** Maximum time between two chunks that a client sends or reads. */
  readonly clientIdleMs: number;
  /** Maximum time until the first message of a WebSocket that has to authenticate its client. */
  readonly firstFrameMs: number;
}

export const defaultForwardingLimits: ForwardingLimits = {
  connectMs: 5000,
  firstByteMs: 600_000,
  idleMs: 600_000,
  clientIdleMs: 60_000,
  firstFrameMs: 15_000,
};

/** Maximum bytes of the first message, with which a client authenticates itself. */
const maxBytes = 8 * 1024;

/** Control frames for the upstream, and the first message as soon as it is complete. */
type FirstMessageResult =
  | { readonly state: 'waiting'; readonly controls: Buffer }
  /** `rest` has the bytes after the message. */
  | {
      readonly state: 'complete';
      readonly controls: Buffer;
      readonly text: string;
      readonly rest: Buffer;
    }
  /** The bytes are not a text message of at most `maxBytes`, or not a WebSocket frame. */
  | { readonly state: 'refused'; readonly controls: Buffer };

const finBit = 0x80;
const reservedBits = 0x70;
const Opcode = { continuation: 0, text: 1, control: 8, close: 8 } as const;

/**
 * Reads a client's frames (RFC 6455 §5.2) until the first message is complete, also if it consists
 * of several frames with control frames in between. Refuses compressed messages, because no
 * extension is supported.
 */
export class FirstMessage {
  #bytes = Buffer.alloc(0);
  readonly #parts: Buffer[] = [];
  /** Size of the message's frames including heads: frames without a payload take memory too. */
  #size = 0;

  read(chunk: Buffer): FirstMessageResult {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const controls: Buffer[] = [];
    const result = (state: 'waiting' | 'refused') => ({ state, controls: Buffer.concat(controls) });
    for (;;) {
      const frame = frameHeadOf(this.#bytes);
      if (frame === undefined)
        return result(this.#bytes.length + this.#size > maxBytes ? 'refused' : 'waiting');
      const { head, length, payloadStart, isMasked } = frame;
      if ((head & reservedBits) !== 0 || !isMasked || this.#size + length > maxBytes)
        return result('refused');
      if (this.#bytes.length < payloadStart + length) return result('waiting');
      const opcode = head & 0x0f;
      const whole = this.#bytes.subarray(0, payloadStart + length);
      this.#bytes = this.#bytes.subarray(whole.length);
      if (opcode >= Opcode.control) {
        controls.push(whole);
        // A client that closes sends no further message.
        if (opcode === Opcode.close) return result('waiting');
        continue;
      }
      if (opcode !== (this.#parts.length === 0 ? Opcode.text : Opcode.continuation))
        return result('refused');
      this.#parts.push(unmasked(whole, payloadStart));
      this.#size += whole.length;
      if ((head & finBit) === 0) continue;
      return {
        state: 'complete',
        controls: Buffer.concat(controls),
        text: Buffer.concat(this.#parts).toString('utf8'),
        rest: this.#bytes,
      };
    }
  }
}

/** Maximum time to close both sides, after one side has ended or `close` was called. */
const closingMs = 2000;

export interface TunnelOptions {
  readonly client: Duplex;
  readonly upstream: Socket;
  /** Bytes that the client sent directly after its handshake. `upstreamHead`: the upstream's. */
  readonly clientHead: Buffer;
  readonly upstreamHead: Buffer;
  /**
   * Checks the first message of a client that did not authenticate at the handshake. Returns the
   * message for the upstream, or the code with which to close the connection. Undefined: all
   * messages are forwarded unread.
   */
  readonly authenticate: ((message: string) => string | CloseCode) | undefined;
  readonly limits: Pick<ForwardingLimits, 'idleMs' | 'firstFrameMs'>;
  readonly clock: Clock;
  /** Called when a side reads more slowly than the other one sends. */
  readonly onStall: (side: Duplex) => void;
  /** Called once when both connections are closed. */
  readonly onClose: () => void;
}

interface Direction {
  readonly from: Duplex;
  readonly to: Duplex;
  readonly towards: 'client' | 'server';
  readonly frames: FrameFollower;
}

/**
 * Forwards bytes of an open WebSocket in both directions, as fast as the slower side reads them.
 * The tunnel follows the frames only to close the WebSocket between two of them.
 */
export class Tunnel {
  readonly #options: TunnelOptions;
  readonly #toUpstream: Direction;
  readonly #toClient: Direction;
  /** Undefined once the client has authenticated itself. */
  #first: FirstMessage | undefined;
  readonly #beganMs: number;
  #activeMs: number;
  #closing: CloseCode | undefined;
  #closingSinceMs: number | undefined;
  #timer: Timer | undefined;

  constructor(options: TunnelOptions) {
    const { client, upstream, clock } = options;
    this.#options = options;
    this.#first = options.authenticate && new FirstMessage();
    this.#beganMs = clock.monotonic();
    this.#activeMs = this.#beganMs;
    const [toUpstream, toClient] = [new FrameFollower(), new FrameFollower()];
    this.#toUpstream = { from: client, to: upstream, towards: 'server', frames: toUpstream };
    this.#toClient = { from: upstream, to: client, towards: 'client', frames: toClient };
    this.#carry(this.#toUpstream);
    this.#carry(this.#toClient);
    let open = 2;
    const closed = (other: Duplex) => () => {
      other.destroy();
      open -= 1;
      if (open > 0) return;
      this.#timer?.cancel();
      options.onClose();
    };
    client.once('close', closed(upstream)).on('error', () => client.destroy());
    upstream.once('close', closed(client)).on('error', () => upstream.destroy());
    if (options.upstreamHead.length > 0) this.#pass(options.upstreamHead, this.#toClient);
    if (options.clientHead.length > 0) this.#pass(options.clientHead, this.#toUpstream);
  }

  /** Ends the WebSocket: sends each side a close frame as soon as no other frame is incomplete. */
  close(code: CloseCode): void {
    if (this.#closing !== undefined) return;
    this.#closing = code;
    this.#closingSinceMs = this.#options.clock.monotonic();
    this.#timer = this.#options.clock.after(closingMs, () => this.destroy());
    for (const direction of [this.#toClient, this.#toUpstream])
      if (direction.frames.isBetweenFrames) this.#finish(direction);
  }

  destroy(): void {
    this.#options.client.destroy();
    this.#options.upstream.destroy();
  }

  /** Enforces the time limits. Periodic calls of the owner cost less than a timer per tunnel. */
  review(nowMs: number): void {
    if (this.#closingSinceMs !== undefined && nowMs - this.#closingSinceMs > closingMs)
      this.destroy();
    else if (nowMs - this.#activeMs > this.#options.limits.idleMs) this.close(CloseCode.goingAway);
    else if (this.#first !== undefined && nowMs - this.#beganMs > this.#options.limits.firstFrameMs)
      this.close(CloseCode.policyViolation);
  }

  #carry(direction: Direction): void {
    const { from, to } = direction;
    from.on('data', (chunk: Buffer) => this.#pass(chunk, direction));
    to.on('drain', () => from.resume());
    from.on('end', () => {
      this.#closingSinceMs ??= this.#options.clock.monotonic();
      to.end();
    });
  }

  #pass(chunk: Buffer, direction: Direction): void {
    const { from, to, frames } = direction;
    this.#activeMs = this.#options.clock.monotonic();
    // Bytes after the tunnel's own close frame are dropped.
    if (to.writableEnded || to.destroyed) return;
    if (this.#closing !== undefined) {
      const rest = frames.read(chunk, { toFrameEnd: true });
      to.write(chunk.subarray(0, rest));
      if (frames.isBetweenFrames) this.#finish(direction);
      return;
    }
    const passed =
      direction === this.#toUpstream && this.#first !== undefined
        ? this.#afterFirst(this.#first, chunk)
        : chunk;
    if (passed.length === 0) return;
    frames.read(passed);
    if (to.write(passed)) return;
    from.pause();
    this.#options.onStall(to);
  }

  /** Returns bytes for the upstream: control frames, and then the result of `authenticate`. */
  #afterFirst(first: FirstMessage, chunk: Buffer): Buffer {
    const result = first.read(chunk);
    if (result.state === 'waiting') return result.controls;
    const message =
      result.state === 'complete' ? this.#options.authenticate?.(result.text) : undefined;
    if (result.state === 'refused' || typeof message !== 'string') {
      this.close(typeof message === 'number' ? message : CloseCode.authenticationFailed);
      return Buffer.alloc(0);
    }
    this.#first = undefined;
    return Buffer.concat([result.controls, textFrame(message), result.rest]);
  }

  #finish({ to, towards, frames }: Direction): void {
    if (this.#closing === undefined || to.writableEnded || to.destroyed) return;
    if (frames.hasClose) to.end();
    else to.end(closeFrame(this.#closing, towards));
  }
}
