import { BoundedBytes } from './bounded-bytes.ts';

/**
 * Reads JSON of any length, in parts of any length, piece by piece: each item of a list, or each
 * field of an object as an object of this field alone. A piece of more than `maxBytes` is left out.
 */
export class JsonPieces {
  readonly #onPiece: (json: string) => void;
  readonly #piece: BoundedBytes;
  #isObject = false;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isComplete = false;
  #isOther = false;

  constructor(maxBytes: number, onPiece: (json: string) => void) {
    this.#piece = new BoundedBytes(maxBytes);
    this.#onPiece = onPiece;
  }

  /** Whether the object or list has ended. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Whether the JSON is a list, as soon as it has begun. */
  get isList(): boolean {
    return !this.#isObject;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let at = 0; at < chunk.length && !this.#isComplete && !this.#isOther; at++) {
      const code = chunk[at] ?? 0;
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (code === backslash) this.#isEscaped = true;
        else if (code === quote) this.#isInString = false;
      } else if (this.#depth === 0) {
        start = at + 1;
        this.#begin(code);
      } else if (code === quote) this.#isInString = true;
      else if (code === openBrace || code === openBracket) this.#depth++;
      else if (code === closeBrace || code === closeBracket) {
        this.#depth--;
        if (this.#depth > 0) continue;
        this.#end(chunk, start, at);
        this.#isComplete = true;
      } else if (code === comma && this.#depth === 1) {
        this.#end(chunk, start, at);
        start = at + 1;
      }
    }
    if (!this.#isComplete && !this.#isOther) this.#piece.append(chunk, start, chunk.length);
  }

  #begin(code: number): void {
    if (code === openBrace || code === openBracket) {
      this.#isObject = code === openBrace;
      this.#depth = 1;
    } else if (!spaces.includes(code)) this.#isOther = true;
  }

  #end(chunk: Buffer, start: number, end: number): void {
    this.#piece.append(chunk, start, end);
    const text = this.#piece.text();
    this.#piece.clear();
    if (text !== undefined) this.#onPiece(this.#isObject ? `{${text}}` : text);
  }
}

const spaces = [0x20, 0x0a, 0x0d, 0x09];
const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
