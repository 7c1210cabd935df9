import type { Clock, Timer } from '@conversation-operator/base/clock';
import { DelayHeap } from './delay-heap.ts';

/**
 * Time that passes only when a test says so, in an order that is always the same: timers fire by
 * their time, those of one time in the order in which they were set, and between any two everything
 * that is ready to run (promises, however deep) runs out.
 */
export class VirtualClock implements Clock {
  #monotonic = 0;
  #wall: number;
  readonly #callbacks = new Map<number, () => void>();
  /** The ids of `#callbacks`, and of timers that were cancelled: those are skipped. */
  readonly #due = new DelayHeap<number>();
  #ids = 0;

  constructor(now = Date.UTC(2030, 0, 1)) {
    this.#wall = now;
  }

  now(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  after(delayMs: number, callback: () => void): Timer {
    const id = this.#ids++;
    this.#callbacks.set(id, callback);
    this.#due.add(id, this.#monotonic + Math.max(0, delayMs));
    return {
      cancel: () => {
        this.#callbacks.delete(id);
      },
    };
  }

  /** How many timers are set: 0 after a clean stop. */
  get timers(): number {
    return this.#callbacks.size;
  }

  /** Moves the wall clock alone, as NTP or a person may. */
  jumpWallClock(byMs: number): void {
    this.#wall += byMs;
  }

  /** Lets everything run that is ready, without letting time pass. */
  settle(): Promise<void> {
    // A turn of the event loop begins only when no promise is left to be run.
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  /** Lets `delayMs` pass, with everything that happens in that time. */
  async advance(delayMs: number): Promise<void> {
    const end = this.#monotonic + delayMs;
    await this.settle();
    while ((this.#nextAt() ?? Infinity) <= end) await this.#fireNext();
    this.#moveTo(end);
  }

  /**
   * Lets time pass, timer by timer, until the condition holds. Throws when it does not within
   * `limitMs`, or nothing is left to wait for.
   */
  async runUntil(condition: () => boolean, limitMs = 3_600_000): Promise<void> {
    const end = this.#monotonic + limitMs;
    await this.settle();
    while (!condition()) {
      const nextAt = this.#nextAt();
      if (nextAt === undefined) throw new Error('the condition does not hold, and no timer is set');
      if (nextAt > end) throw new Error(`the condition did not hold within ${limitMs} ms`);
      await this.#fireNext();
    }
  }

  /** Lets time pass until the promise is settled, and returns what it was settled with. */
  async run<T>(promise: Promise<T>, limitMs?: number): Promise<T> {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    promise.then(settle, settle);
    await this.runUntil(() => settled, limitMs);
    return promise;
  }

  #nextAt(): number | undefined {
    for (;;) {
      const id = this.#due.first;
      if (id === undefined || this.#callbacks.has(id)) return this.#due.nextAt;
      this.#due.takeDue(Infinity);
    }
  }

  async #fireNext(): Promise<void> {
    const at = this.#nextAt();
    const id = this.#due.takeDue(Infinity);
    if (at === undefined || id === undefined) return;
    const callback = this.#callbacks.get(id);
    this.#callbacks.delete(id);
    this.#moveTo(at);
    callback?.();
    await this.settle();
  }

  #moveTo(at: number): void {
    const passed = Math.max(0, at - this.#monotonic);
    this.#monotonic += passed;
    this.#wall += passed;
  }
}
