import type { Document } from './document.ts';

export interface WatchEvent {
  readonly type: string;
  readonly object: Document;
}

const patienceMs = 60_000;

/** An open watch. The test that opens it closes it. */
export class Watch {
  readonly status: number;
  readonly #body: AsyncIterable<Uint8Array>;
  readonly #ending: AbortController;
  readonly #events: WatchEvent[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(status: number, body: AsyncIterable<Uint8Array>, ending: AbortController) {
    this.status = status;
    this.#body = body;
    this.#ending = ending;
    void this.#read();
  }

  /** The next event. @throws Error when none comes, or the watch has ended */
  async next(): Promise<WatchEvent> {
    const event = await this.#take();
    if (event === undefined) throw new Error('the watch has ended');
    return event;
  }

  /** The next `count` events, each as `TYPE name`. */
  async take(count: number): Promise<readonly string[]> {
    const lines: string[] = [];
    for (let index = 0; index < count; index += 1) {
      const { type, object } = await this.next();
      lines.push(`${type} ${object.metadata.name}`);
    }
    return lines;
  }

  /** All that comes until the server ends the watch. */
  async rest(): Promise<readonly WatchEvent[]> {
    const events: WatchEvent[] = [];
    for (;;) {
      const event = await this.#take();
      if (event === undefined) return events;
      events.push(event);
    }
  }

  close(): void {
    this.#ending.abort();
  }

  async #take(): Promise<WatchEvent | undefined> {
    const deadline = performance.now() + patienceMs;
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined || this.#ended) return event;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw new Error(`no event within ${patienceMs} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let text = '';
    try {
      for await (const chunk of this.#body) {
        const lines = (text + decoder.decode(chunk, { stream: true })).split('\n');
        text = lines.pop() ?? '';
        for (const line of lines)
          if (line !== '') this.#events.push(JSON.parse(line) as WatchEvent);
        this.#wake?.();
      }
    } catch {
      // Closed, or broken off: an end either way, and the cases say whether they expect one.
    }
    if (text.trim() !== '') this.#events.push(JSON.parse(text) as WatchEvent);
    this.#ended = true;
    this.#wake?.();
  }
}
