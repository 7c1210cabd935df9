import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

/** An action that the product has to take now. */
export interface Duty {
  /** The promise, for example "a pod is made in time". */
  readonly rule: string;
  /** Names one occasion: the same text as long as it is the same one. */
  readonly subject: string;
  readonly boundMs: number;
}

/**
 * Whether the product does in time what is its turn. Nothing here goes through a resync or a poll
 * that comes by anyway: each bound is shorter than those, so an event that wakes the wrong
 * controller, or none, is found. For times at which nothing goes wrong.
 */
export class Duties {
  readonly #scheduler: Scheduler;
  readonly #pending: () => readonly Duty[];
  /** Since when each is pending, and its longest bound: a busy agent may be busy with it still. */
  readonly #known = new Map<string, { readonly since: number; readonly boundMs: number }>();
  #begun = false;
  #heldUntil = 0;

  constructor({
    scheduler,
    pending,
  }: {
    readonly scheduler: Scheduler;
    readonly pending: () => readonly Duty[];
  }) {
    this.#scheduler = scheduler;
    this.#pending = pending;
  }

  begin(): void {
    this.#begun = true;
  }

  /** Excuses every delay for this time, for example while another process takes over. */
  hold(forMs: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, this.#scheduler.monotonic() + forMs);
  }

  /** Whether the duties have begun and no one has a reason to be late. */
  get isPunctual(): boolean {
    return this.#begun && this.#scheduler.monotonic() >= this.#heldUntil;
  }

  check(): void {
    if (!this.#begun) return;
    const now = this.#scheduler.monotonic();
    if (now < this.#heldUntil) {
      this.#known.clear();
      return;
    }
    const pending = new Map(this.#pending().map((duty) => [`${duty.rule} ${duty.subject}`, duty]));
    for (const key of [...this.#known.keys()]) if (!pending.has(key)) this.#known.delete(key);
    for (const [key, duty] of pending) {
      const { since, boundMs } = this.#known.get(key) ?? { since: now, boundMs: 0 };
      const longest = Math.max(boundMs, duty.boundMs);
      this.#known.set(key, { since, boundMs: longest });
      if (now - since > longest)
        throw new Violation(
          duty.rule,
          `${duty.subject}, pending for ${(now - since).toFixed(0)} ms`,
        );
    }
  }
}
