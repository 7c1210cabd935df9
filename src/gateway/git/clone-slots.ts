import { ProblemError } from '../errors/problem-error.ts';

export interface CloneSlotsOptions {
  /** Requests at once. */
  readonly max: number;
  /** Of one sandbox at once; more are refused. */
  readonly maxPerSandbox: number;
  /** That wait for a slot at once; more are refused. */
  readonly maxWaiting: number;
}

const tooMany = (): ProblemError =>
  new ProblemError('too-many-connections', 'Too many repositories are being cloned.', { headers: { 'retry-after': '10' } });

/** Bounds what is passed on at once. Who finds no room waits for it, first come first served: a start that fails costs more. */
export class CloneSlots {
  readonly #options: CloneSlotsOptions;
  readonly #waiting: (() => void)[] = [];
  readonly #bySandbox = new Map<string, number>();
  #taken = 0;

  constructor(options: CloneSlotsOptions) {
    this.#options = options;
  }

  /** Resolves to what gives the slot back. Rejects with a problem, or with the signal's reason. */
  async take(sandboxUid: string, signal: AbortSignal): Promise<() => void> {
    const { max, maxPerSandbox, maxWaiting } = this.#options;
    signal.throwIfAborted();
    const own = this.#bySandbox.get(sandboxUid) ?? 0;
    if (own >= maxPerSandbox) throw tooMany();
    if (this.#taken >= max && this.#waiting.length >= maxWaiting) throw tooMany();
    // Counted while it waits: one sandbox alone can't fill the queue.
    this.#bySandbox.set(sandboxUid, own + 1);
    try {
      if (this.#taken < max) this.#taken += 1;
      else await this.#turn(signal);
    } catch (error) {
      this.#forget(sandboxUid);
      throw error;
    }
    return () => {
      this.#forget(sandboxUid);
      const next = this.#waiting.shift();
      if (next === undefined) this.#taken -= 1;
      else next();
    };
  }

  /** The slot of whoever goes is handed on, so it is never counted twice. */
  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(signal.reason as Error);
      };
      const enter = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      this.#waiting.push(enter);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #forget(sandboxUid: string): void {
    const left = (this.#bySandbox.get(sandboxUid) ?? 1) - 1;
    if (left === 0) this.#bySandbox.delete(sandboxUid);
    else this.#bySandbox.set(sandboxUid, left);
  }
}
