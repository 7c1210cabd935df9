/** Searches chunked bytes for a text, and keeps only the bytes that a match across chunks needs. */
export class SubstringSearch {
  readonly #word: Buffer;
  #tail = Buffer.alloc(0);

  constructor(word: string) {
    this.#word = Buffer.from(word);
  }

  /** Whether the bytes so far, including this piece, contain the text. */
  isIn(piece: Buffer): boolean {
    const edge = Math.max(0, this.#word.length - 1);
    if (
      piece.includes(this.#word) ||
      Buffer.concat([this.#tail, piece.subarray(0, edge)]).includes(this.#word)
    )
      return true;
    this.#tail = Buffer.concat([this.#tail, piece.subarray(-edge)]).subarray(-edge);
    return false;
  }
}
