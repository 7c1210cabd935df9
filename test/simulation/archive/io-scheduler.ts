import { Scheduler } from '../scheduler.ts';

/**
 * A scheduler whose steps may read and write real files. The work of a step is done one after the
 * other, and the step ends when all of it is done, so that no order depends on the speed of a disk.
 */
export class IoScheduler extends Scheduler {
  #last: Promise<unknown> = Promise.resolve();
  #pending = 0;

  /** Does the work when all that was given before is done. */
  io<T>(work: () => Promise<T>): Promise<T> {
    this.#pending++;
    const done = this.#last.then(work);
    const end = () => {
      this.#pending--;
    };
    this.#last = done.then(end, end);
    return done;
  }

  override async settle(): Promise<void> {
    for (;;) {
      await super.settle();
      if (this.#pending === 0) return;
      await this.#last;
    }
  }
}
