import type { ServerResponse } from 'node:http';

/** Of all answers that wait for their clients to take them. */
const maxBytes = 64 * 1024 * 1024;

/** Bounds the memory of answers that nobody reads: beyond it, whoever has taken nothing for longest is cut off. */
export class WaitingAnswers {
  readonly #maxBytes: number;
  readonly #waiting = new Map<ServerResponse, number>();
  #bytes = 0;

  constructor(options: { readonly maxBytes?: number } = {}) {
    this.#maxBytes = options.maxBytes ?? maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** For an answer that has been written as a whole. */
  add(response: ServerResponse): void {
    const bytes = response.writableLength;
    if (bytes === 0 || response.destroyed) return;
    this.#waiting.set(response, bytes);
    this.#bytes += bytes;
    response.once('close', () => this.#remove(response));
    for (const [oldest] of this.#waiting) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#remove(oldest);
      oldest.req.socket.destroy();
    }
  }

  #remove(response: ServerResponse): void {
    this.#bytes -= this.#waiting.get(response) ?? 0;
    this.#waiting.delete(response);
  }
}
