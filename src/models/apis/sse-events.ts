import { BoundedBytes } from './bounded-bytes.ts';

/**
 * Reads server-sent events, as the HTML standard describes them, from bytes in parts of any length.
 * An event whose data is longer than `maxBytes` is left out.
 */
export class SseEvents {
  readonly #onEvent: (data: string, type: string) => void;
  readonly #data: BoundedBytes;
  readonly #field = new BoundedBytes(16);
  readonly #type = new BoundedBytes(64);
  #isInValue = false;
  /** The first byte of a value, if it is a space, is not a part of it. */
  #isValueStart = false;
  #isAfterReturn = false;
  #isFirstLine = true;
  #dataLines = 0;

  constructor(maxBytes: number, onEvent: (data: string, type: string) => void) {
    this.#data = new BoundedBytes(maxBytes);
    this.#onEvent = onEvent;
  }

  /** Whether the bytes so far end between two events, so that another event can follow. */
  get isBetweenEvents(): boolean {
    return !this.#isInValue && this.#field.isEmpty && this.#type.isEmpty && this.#dataLines === 0;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const code = chunk[at];
      if (code === newline && this.#isAfterReturn) {
        this.#isAfterReturn = false;
        start = at + 1;
      } else if (code === newline || code === carriageReturn) {
        this.#take(chunk, start, at);
        this.#endLine();
        this.#isAfterReturn = code === carriageReturn;
        start = at + 1;
      } else {
        this.#isAfterReturn = false;
        if (code === colon && !this.#isInValue) {
          this.#take(chunk, start, at);
          this.#beginValue();
          start = at + 1;
        }
      }
    }
    this.#take(chunk, start, chunk.length);
  }

  /** Bytes of a name, or of the value of the field that has this name. */
  #take(chunk: Buffer, start: number, end: number): void {
    if (start >= end) return;
    if (!this.#isInValue) {
      this.#field.append(chunk, start, end);
      return;
    }
    const from = this.#isValueStart && chunk[start] === space ? start + 1 : start;
    this.#isValueStart = false;
    const field = this.#name();
    if (field === 'data') this.#data.append(chunk, from, end);
    else if (field === 'event') this.#type.append(chunk, from, end);
  }

  #name(): string | undefined {
    const name = this.#field.text();
    return this.#isFirstLine ? name?.replace(/^\uFEFF/, '') : name;
  }

  #beginValue(): void {
    this.#isInValue = true;
    this.#isValueStart = true;
    const field = this.#name();
    if (field === 'event') this.#type.clear();
    if (field === 'data') this.#beginData();
  }

  #beginData(): void {
    if (this.#dataLines > 0) this.#data.append(lineBreak, 0, 1);
    this.#dataLines++;
  }

  #endLine(): void {
    if (!this.#isInValue && this.#field.isEmpty) this.#endEvent();
    else if (!this.#isInValue && this.#name() === 'data') this.#beginData();
    this.#field.clear();
    this.#isInValue = false;
    this.#isFirstLine = false;
  }

  #endEvent(): void {
    const data = this.#data.text();
    const type = this.#type.text();
    const hasData = this.#dataLines > 0;
    this.#data.clear();
    this.#type.clear();
    this.#dataLines = 0;
    if (hasData && data !== undefined) this.#onEvent(data, type ?? '');
  }
}

const lineBreak = Buffer.from('\n');
const newline = 0x0a;
const carriageReturn = 0x0d;
const colon = 0x3a;
const space = 0x20;
