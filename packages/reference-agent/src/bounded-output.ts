/**
 * Keeps the beginning and the end of the output of a command, with the number of bytes that are
 * omitted between them.
 */
export class BoundedOutput {
  readonly #half: number;
  #head = Buffer.alloc(0);
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #droppedBytes = 0;

  constructor(maxBytes: number) {
    this.#half = Math.floor(maxBytes / 2);
  }

  push(chunk: Buffer): void {
    const room = this.#half - this.#head.length;
    if (room > 0) this.#head = Buffer.concat([this.#head, chunk.subarray(0, room)]);
    const rest = room > 0 ? chunk.subarray(room) : chunk;
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    // Compaction is rare, so that each byte is copied once or twice, however small the chunks are.
    if (this.#tailBytes > 4 * this.#half + 4096) this.#compact();
  }

  toString(): string {
    this.#compact();
    const tail = Buffer.concat(this.#tail);
    if (this.#droppedBytes === 0) return Buffer.concat([this.#head, tail]).toString('utf8');
    return `${this.#head.toString('utf8')}\n… ${this.#droppedBytes} bytes omitted …\n${tail.toString('utf8')}`;
  }

  #compact(): void {
    const excess = this.#tailBytes - this.#half;
    if (excess <= 0) return;
    this.#tail = [Buffer.from(Buffer.concat(this.#tail).subarray(excess))];
    this.#tailBytes = this.#half;
    this.#droppedBytes += excess;
  }
}
