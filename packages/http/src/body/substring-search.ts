/** Searches a stream for a text. Keeps only the bytes that a match across two pieces needs. */
export class SubstringSearch {
  readonly #word: Buffer;
  #tail = Buffer.alloc(0);

  constructor(word: string) {
    this.#word = Buffer.from(word);
  }

  /** Whether this piece completes the text, which may begin in earlier pieces. */
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
