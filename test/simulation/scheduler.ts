import type { Clock, Timer } from '@conversation-operator/base/clock';
import { DelayHeap } from '../support/delay-heap.ts';

interface Task {
  readonly run: () => void;
  cancelled: boolean;
}

/** Maximum clock readings within a step: a loop without waits would never end the step. */
const maxReadings = 200_000;

const livelock = (): Error =>
  new Error(`livelock: one step reads the clock more than ${maxReadings} times`);

const epoch = Date.UTC(2030, 0, 1);

/**
 * Owns all asynchrony of a simulation. A step runs one task and then every promise that has become
 * ready; nothing else ever runs, so that the order of everything follows from the order of tasks:
 * by their time, those of one time as they were set.
 */
export class Scheduler implements Clock {
  #tasks = new DelayHeap<Task>();
  #time = 0;
  #readings = 0;
  #isOver = false;

  /** Milliseconds since the simulation began. Throws in a loop that lets no time pass. */
  monotonic(): number {
    if (++this.#readings > maxReadings) throw livelock();
    return this.#time;
  }

  now(): number {
    return epoch + this.#time;
  }

  /**
   * Forgets every task, and takes no more. Node keeps a composite signal with a listener for as
   * long as its sources live, and through the tasks a whole simulation.
   */
  end(): void {
    this.#tasks = new DelayHeap();
    this.#isOver = true;
  }

  after(delayMs: number, run: () => void): Timer {
    const task: Task = { run, cancelled: false };
    if (!this.#isOver) this.#tasks.add(task, this.#time + Math.max(0, delayMs));
    return {
      cancel: () => {
        task.cancelled = true;
      },
    };
  }

  /** Resolves when no promise is left to be run. */
  settle(): Promise<void> {
    // A turn of the event loop begins only then. The simulation has no input or output that it
    // could bring.
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  /** Runs the next task due until `limit`; false when there is none, and then it is that time. */
  async step(limit: number): Promise<boolean> {
    for (;;) {
      const at = this.#tasks.nextAt;
      if (at === undefined || at > limit) {
        this.#time = Math.max(this.#time, limit);
        return false;
      }
      const task = this.#tasks.takeDue(at);
      if (task === undefined || task.cancelled) continue;
      this.#time = Math.max(this.#time, at);
      this.#readings = 0;
      task.run();
      await this.settle();
      // The product may have taken the error for that of a call.
      if (this.#readings > maxReadings) throw livelock();
      return true;
    }
  }
}
