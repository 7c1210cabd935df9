/**
 * A buffer for reuse. The garbage collector runs for every 64 MiB of new buffers, however
 * short-lived the buffers are.
 */
export class ScratchBuffer {
  #bytes = Buffer.alloc(0);

  /** Concatenates the chunks. The result is valid until the next call. */
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
