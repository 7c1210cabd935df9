export interface Post {
  /** Resolves when it was taken. */
  send(body: string): Promise<void>;
  /** Aborted: nothing more is sent, nothing more waited for. */
  readonly closing: AbortSignal;
}

export interface EventPostOptions {
  readonly bufferSize: number;
  readonly flushDelayMs: number;
  /** After the first attempt. What was not taken then goes with the next flush. */
  readonly retries: number;
  readonly retryDelayMs: number;
  readonly maxQueuedEvents: number;
  readonly maxQueuedBytes: number;
  readonly maxBatchBytes: number;
  readonly post: Post;
  readonly log: (message: string, error?: unknown) => void;
  /** Each event is sent by itself, in no list. */
  readonly bare?: boolean;
}

/**
 * Events on their way to one receiver, in order, one request at a time: when enough of them wait, or the first one has waited for
 * long enough. What a receiver does not take is kept within bounds; the oldest go first.
 */
export class EventPost {
  readonly #options: EventPostOptions;
  #queue: string[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #posting: Promise<void> | undefined;
  #ended = false;
  #failing = false;

  constructor(options: EventPostOptions) {
    this.#options = options;
  }

  /** One event as JSON. */
  add(event: string): void {
    if (this.#ended) return;
    this.#queue.push(event);
    this.#bytes += event.length;
    this.#trim();
    // While a receiver does not take anything, only the timer tries.
    if (this.#queue.length >= this.#options.bufferSize && !this.#failing) this.#flush();
    else this.#arm();
  }

  /** No more events come. What waits goes out, or not: nobody waits for it. */
  end(): void {
    this.#ended = true;
    this.#flush();
  }

  /** The same; resolves when it is decided. */
  async close(): Promise<void> {
    this.end();
    while (this.#posting !== undefined) await this.#posting;
  }

  #arm(): void {
    if (this.#ended || this.#timer !== undefined || this.#queue.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, this.#options.flushDelayMs);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#queue.length === 0 || this.#posting !== undefined) return;
    this.#posting = this.#work().finally(() => {
      this.#posting = undefined;
      if (this.#ended && !this.#failing) this.#flush();
      else this.#arm();
    });
  }

  /** What waits now, and while so much waits that it would be sent at once. */
  async #work(): Promise<void> {
    let left = this.#queue.length;
    do {
      const batch = this.#take(Math.min(left, this.#options.bufferSize));
      this.#failing = !(await this.#sent(batch));
      if (this.#failing) {
        this.#queue = [...batch, ...this.#queue];
        this.#bytes += lengthOf(batch);
        this.#trim();
        return;
      }
      left = Math.max(left - batch.length, this.#queue.length >= this.#options.bufferSize ? this.#queue.length : 0);
    } while (left > 0);
  }

  #take(most: number): readonly string[] {
    let bytes = 0;
    let count = 0;
    for (const event of this.#queue.slice(0, most)) {
      bytes += event.length;
      if (count > 0 && bytes > this.#options.maxBatchBytes) break;
      count++;
    }
    const batch = this.#queue.splice(0, count);
    this.#bytes -= lengthOf(batch);
    return batch;
  }

  async #sent(batch: readonly string[]): Promise<boolean> {
    const { post, retries, retryDelayMs, log, bare } = this.#options;
    const body = bare === true ? (batch[0] ?? '') : `[${batch.join(',')}]`;
    for (let attempt = 0; ; attempt++) {
      try {
        await post.send(body);
        return true;
      } catch (error) {
        if (!this.#failing && attempt === 0) log('a webhook was not taken', error);
        // Nobody waits for the retries of one that ends.
        if (attempt >= retries || this.#ended || post.closing.aborted) return false;
        await paused(retryDelayMs, post.closing);
      }
    }
  }

  #trim(): void {
    const { maxQueuedEvents, maxQueuedBytes } = this.#options;
    while (this.#queue.length > maxQueuedEvents || (this.#bytes > maxQueuedBytes && this.#queue.length > 0))
      this.#bytes -= this.#queue.shift()?.length ?? 0;
  }
}

const lengthOf = (events: readonly string[]): number => events.reduce((total, { length }) => total + length, 0);

const paused = (delayMs: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, delayMs);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
