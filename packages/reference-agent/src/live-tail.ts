import { randomBytes } from 'node:crypto';
import { maskPart, type Needles } from './mask.ts';

/** Maximum UTF-16 units of a tail: what a reader may fall behind before it misses something. */
export const maxTailCharacters = 64 * 1024;

/** The same text without the larger one that the engine keeps for a part of it. */
export const copied = (part: string): string => Buffer.from(part, 'utf16le').toString('utf16le');

/** A part of a text that grows. */
export interface TailPart {
  /** Place of the part's beginning in the whole text, in UTF-16 units. */
  readonly from: number;
  /** Place from which on a reader asks for the next part. */
  readonly end: number;
  /** The part, with markers in the place of secrets. */
  readonly text: string;
}

/**
 * The end of a text that grows, in bounded memory. A text costs nothing but that until it is read:
 * secrets are hidden for each reader.
 */
export class LiveTail {
  readonly id = randomBytes(9).toString('base64url');
  readonly #startedMs = performance.now();
  readonly #isContinued: boolean;
  #parts: string[] = [];
  #kept = 0;
  #end = 0;

  /** @param isContinued Whether the text may begin within a secret, because it continues another one. */
  constructor({ isContinued = false }: { readonly isContinued?: boolean } = {}) {
    this.#isContinued = isContinued;
  }

  get elapsedMs(): number {
    return Math.round(performance.now() - this.#startedMs);
  }

  push(text: string): void {
    if (text === '') return;
    const part = text.length > maxTailCharacters ? text.slice(-maxTailCharacters) : text;
    this.#parts.push(copied(part));
    this.#kept += part.length;
    this.#end += text.length;
    // Compaction is rare, so that each character is copied once or twice, however small the parts.
    if (this.#kept > 2 * maxTailCharacters || this.#parts.length > 4_096) this.#compact();
  }

  /**
   * The text from a place on, or from the first one that is kept. An end that may be the beginning
   * of a secret is held back, so that no secret is shown in two parts.
   */
  read(after: number, needles: Needles): TailPart {
    const text = this.#compact();
    const start = this.#end - text.length;
    const from = after >= start && after <= this.#end ? after : start;
    const part = maskPart(text, needles, {
      from: from - start,
      continued: this.#isContinued || start > 0,
    });
    return { from, end: start + part.to, text: part.text };
  }

  #compact(): string {
    const joined = this.#parts.join('');
    const isLonger = joined.length > maxTailCharacters;
    const text = isLonger ? copied(joined.slice(-maxTailCharacters)) : joined;
    this.#parts = [text];
    this.#kept = text.length;
    return text;
  }
}
