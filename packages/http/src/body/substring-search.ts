/**
 * Searches bytes that arrive in chunks for a word, and keeps only as many of them as a match across
 * two chunks needs.
 */
export class SubstringSearch {
  readonly #word: Buffer;
  #tail = Buffer.alloc(0);

  constructor(word: string) {
    this.#word = Buffer.from(word);
  }

  /** Whether the bytes so far have the text, this piece included. */
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
