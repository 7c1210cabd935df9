/**
 * Lines for one watcher, in order. The consumer pulls lines; the stream ends when the consumer
 * falls too far behind.
 */
export class WatchStream implements AsyncIterable<string> {
  readonly #maxLines: number;
  readonly #onClose: () => void;
  #lines: string[] = [];
  #waiting: ((result: IteratorResult<string>) => void) | undefined;
  #ended = false;

  constructor(options: { readonly maxLines: number; readonly onClose: () => void }) {
    this.#maxLines = options.maxLines;
    this.#onClose = options.onClose;
  }

  get ended(): boolean {
    return this.#ended;
  }

  push(line: string): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      waiting({ done: false, value: line });
      return;
    }
    if (this.#lines.length >= this.#maxLines) {
      this.#lines = [];
      this.end();
      return;
    }
    this.#lines.push(line);
  }

  /** Ends the stream after the lines that are already queued. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onClose();
    this.#waiting?.({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  [Symbol.asyncIterator](): AsyncIterator<string> {
    return {
      next: () => this.#next(),
      return: () => {
        this.#lines = [];
        this.end();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  #next(): Promise<IteratorResult<string>> {
    if (this.#lines.length > 0) {
      const value = this.#lines.length === 1 ? (this.#lines[0] ?? '') : this.#lines.join('');
      this.#lines = [];
      return Promise.resolve({ done: false, value });
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }
}
