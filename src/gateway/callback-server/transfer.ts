import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { addAbortSignal, type Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { type Clock, type Timer, IdleTimer } from '@conversation-operator/base/clock';
import { ClientPace } from '@conversation-operator/http/limits/slow-clients';

export interface TransferLimits {
  /**
   * Maximum time without a byte from the other server or to the sandbox. `ClientPace` has the same
   * period, in which it requires a minimum rate while the transfer waits for the sandbox.
   */
  readonly idleMs: number;
  readonly totalMs: number;
}

/** One request of a sandbox and the response of a server outside, within time limits. */
export class Transfer {
  /** Aborts when a time limit is exceeded, or when the caller's signal aborts. */
  readonly signal: AbortSignal;
  /** Aborts when a time limit is exceeded. */
  readonly late: AbortSignal;
  readonly #late = new AbortController();
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #idle: IdleTimer;
  /** One for each body. `end` ends all of them, because some bodies are not read to the end. */
  readonly #paces: ClientPace[] = [];
  readonly #total: Timer;

  constructor(
    { idleMs, totalMs }: TransferLimits,
    { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  ) {
    const late = this.#late;
    this.late = late.signal;
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.signal = AbortSignal.any([signal, late.signal]);
    const onIdle = (): void => late.abort(new Error('nothing has moved for too long'));
    this.#idle = new IdleTimer({ clock, idleMs, onIdle });
    this.#total = clock.after(totalMs, () => late.abort(new Error('it has taken too long')));
  }

  /**
   * Yields the chunks of a request's body as they arrive. `late` aborts if the sandbox sends too
   * slowly. If the reader stops early, the request stays open.
   */
  async *arriving(request: IncomingMessage): AsyncGenerator<Buffer> {
    const pieces = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, void>;
    let bytes = 0;
    const pace = this.#paceOf(() => bytes);
    try {
      for (;;) {
        const { value, done } = await pace.during(() => pieces.next());
        if (done === true) return;
        this.#idle.touch();
        bytes += value.length;
        yield value;
      }
    } finally {
      await pieces.return?.();
    }
  }

  /**
   * Sends a body, calls `onBytes` with each chunk, and ends the response. `late` aborts if the
   * sandbox reads the body too slowly.
   */
  async send(
    response: ServerResponse,
    body: Readable,
    onBytes: (chunk: Buffer) => void = () => undefined,
  ): Promise<void> {
    const { signal } = this;
    let bytes = 0;
    const pace = this.#paceOf(() => bytes);
    for await (const chunk of addAbortSignal(signal, body) as AsyncIterable<Buffer>) {
      this.#idle.touch();
      bytes += chunk.length;
      onBytes(chunk);
      if (!response.write(chunk)) await pace.during(() => once(response, 'drain', { signal }));
    }
    response.end();
    await pace.during(() => finished(response, { signal }));
  }

  #paceOf(moved: () => number): ClientPace {
    const pace = new ClientPace({
      clock: this.#clock,
      periodMs: this.#idleMs,
      moved,
      tooSlow: () => this.#late.abort(new Error('the sandbox is too slow')),
    });
    this.#paces.push(pace);
    return pace;
  }

  end(): void {
    for (const pace of this.#paces) pace.end();
    this.#idle.stop();
    this.#total.cancel();
  }
}
