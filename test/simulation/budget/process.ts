import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { VirtualClock } from '../../support/virtual-clock.ts';

/**
 * A process with a clock of its own. While it is paused nothing of it runs, and all that was due
 * runs when it goes on; after it was killed, nothing of it runs any more.
 */
export class Process implements Clock {
  readonly name: string;
  readonly #world: VirtualClock;
  readonly #skewMs: number;
  readonly #timers = new Set<Timer>();
  #due: (() => void)[] = [];
  isDead = false;
  isPaused = false;

  constructor(name: string, world: VirtualClock, skewMs: number) {
    this.name = name;
    this.#world = world;
    this.#skewMs = skewMs;
  }

  now(): number {
    return this.#world.now() + this.#skewMs;
  }

  monotonic(): number {
    return this.#world.monotonic();
  }

  after(delayMs: number, callback: () => void): Timer {
    let isCancelled = false;
    const timer = this.#world.after(delayMs, () => {
      this.#timers.delete(timer);
      this.run(() => {
        if (!isCancelled) callback();
      });
    });
    this.#timers.add(timer);
    return {
      cancel: () => {
        isCancelled = true;
        this.#timers.delete(timer);
        timer.cancel();
      },
    };
  }

  /** Number of timers that the process has set. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Does something in the process now, or when it goes on. */
  run(work: () => void): void {
    if (this.isDead) return;
    if (this.isPaused) this.#due.push(work);
    else work();
  }

  resume(): void {
    this.isPaused = false;
    const due = this.#due;
    this.#due = [];
    for (const work of due) this.run(work);
  }

  kill(): void {
    this.isDead = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }
}
