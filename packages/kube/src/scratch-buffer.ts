/** A buffer that is written again and again, because the collector runs for every 64 MiB of new buffers, however soon these are free. */
export class ScratchBuffer {
  #bytes = Buffer.alloc(0);

  /** The chunks behind one another, until the next call. */
  gather(chunks: readonly Uint8Array[], count: number): Buffer {
    if (this.#bytes.length < count) this.#bytes = Buffer.allocUnsafeSlow(count);
    let at = 0;
    for (const chunk of chunks) {
      this.#bytes.set(chunk, at);
      at += chunk.byteLength;
    }
    return this.#bytes.subarray(0, count);
  }
}
