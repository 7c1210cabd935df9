import { frameHeadOf, unmasked } from './frames.ts';

/** Maximum bytes of the first message: enough for a message that authenticates. */
const maxBytes = 8 * 1024;

/**
 * Result of a read: the control frames for the upstream, and the first message as soon as it is
 * complete.
 */
export type FirstMessageResult =
  | { readonly state: 'waiting'; readonly controls: Buffer }
  /** `rest` follows the message. */
  | {
      readonly state: 'complete';
      readonly controls: Buffer;
      readonly text: string;
      readonly rest: Buffer;
    }
  /** No text message of this size, or no WebSocket frame at all. */
  | { readonly state: 'refused'; readonly controls: Buffer };

const finBit = 0x80;
const reservedBits = 0x70;
const Opcode = { continuation: 0, text: 1, control: 8, close: 8 } as const;

/**
 * Reads the frames of a client (RFC 6455 §5.2) until its first message is complete, also where that
 * comes in several frames with control frames between them. Works without extensions: a compressed
 * message is refused.
 */
export class FirstMessage {
  #bytes = Buffer.alloc(0);
  readonly #parts: Buffer[] = [];
  /** Bytes of its frames so far, with their heads: frames without a payload take memory too. */
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
        // A client that closes sends no message any more.
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
