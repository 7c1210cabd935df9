import { systemClock, type Clock, type Timer } from '@conversation-operator/base/clock';

/**
 * The system's clock, on which some durations pass only when a test says so: a busy machine then
 * ends none of them too early, and no test waits for them.
 */
export class HeldClock implements Clock {
  readonly #durationsMs: readonly number[];
  readonly #held = new Set<() => void>();
  #skippedMs = 0;

  /** Holds the timers that are set for exactly one of these durations. */
  constructor(...durationsMs: readonly number[]) {
    this.#durationsMs = durationsMs;
  }

  now(): number {
    return systemClock.now();
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#skippedMs;
  }

  after(delayMs: number, callback: () => void): Timer {
    if (!this.#durationsMs.includes(delayMs)) return systemClock.after(delayMs, callback);
    this.#held.add(callback);
    return { cancel: () => void this.#held.delete(callback) };
  }

  /** How many timers are held. */
  get held(): number {
    return this.#held.size;
  }

  /** Lets every duration pass: fires the timers that are held now. */
  pass(): void {
    this.#skippedMs += Math.max(...this.#durationsMs);
    const due = [...this.#held];
    this.#held.clear();
    for (const callback of due) callback();
  }
}
