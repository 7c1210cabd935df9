/** Bytes up to a maximum. One byte more, and it forgets them all until it is cleared. */
export class BoundedBytes {
  readonly #maxBytes: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #isTooLong = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get isEmpty(): boolean {
    return this.#length === 0 && !this.#isTooLong;
  }

  /** Copies the bytes, because a small part keeps the whole buffer of a connection in memory. */
  append(chunk: Buffer, start: number, end: number): void {
    if (this.#isTooLong || start >= end) return;
    const length = this.#length + end - start;
    if (length > this.#maxBytes) {
      this.clear();
      this.#isTooLong = true;
      return;
    }
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(this.#maxBytes, Math.max(1_024, length * 2)));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length, start, end);
    this.#length = length;
  }

  /** The bytes as text; undefined if there were too many. */
  text(): string | undefined {
    return this.#isTooLong ? undefined : this.#bytes.toString('utf8', 0, this.#length);
  }

  clear(): void {
    this.#length = 0;
    this.#isTooLong = false;
    if (this.#bytes.length > keptBytes) this.#bytes = Buffer.alloc(0);
  }
}

/** Memory that stays for the next bytes, so that short ones need none of their own. */
const keptBytes = 65_536;
