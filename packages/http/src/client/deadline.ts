/**
 * How long a call may take, and whether its caller has given it up: one signal for both. Lighter
 * than `AbortSignal.any`, whose bookkeeping costs as much as the rest of a call. Has to be ended
 * when the call is over.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #giveUp = () => this.#controller.abort(this.#outer?.reason);
  #hasPassed = false;

  constructor(afterMs: number, outer?: AbortSignal) {
    this.#outer = outer;
    this.#timer = setTimeout(() => {
      this.#hasPassed = true;
      this.#controller.abort(new Error(`not over after ${afterMs} ms`));
    }, afterMs);
    this.#timer.unref();
    outer?.addEventListener('abort', this.#giveUp, { once: true });
    if (outer?.aborted === true) this.#giveUp();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time was over before the call was. */
  get hasPassed(): boolean {
    return this.#hasPassed;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener('abort', this.#giveUp);
  }
}
