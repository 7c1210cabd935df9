import type { Clock } from '@conversation-operator/kube/clock';

export interface DueWatchOptions {
  readonly clock: Clock;
  /** For how long an object has to be due before it counts as due, in milliseconds. */
  readonly confirmMs: number;
}

interface Observation {
  readonly atMs: number;
  /** What the wall clock was ahead of the monotonic one. */
  readonly offsetMs: number;
}

/** Beyond this the wall clock was set, and did not merely drift. */
const jumpMs = 5_000;

/**
 * Tells what is due from what a jump of the wall clock makes look so: an object counts once this process has seen it as due for
 * `confirmMs` of its monotonic clock, in which the wall clock was not set.
 */
export class DueWatch {
  readonly #options: DueWatchOptions;
  /** By uid, from when it was first seen as due. */
  readonly #observed = new Map<string, Observation>();

  constructor(options: DueWatchOptions) {
    this.#options = options;
  }

  /** The object is due by the wall clock. Milliseconds until that is sure; 0: it is. */
  remainingMs(uid: string): number {
    const { clock, confirmMs } = this.#options;
    const atMs = clock.monotonic();
    const offsetMs = clock.now() - atMs;
    const first = this.#observed.get(uid);
    if (first !== undefined && Math.abs(first.offsetMs - offsetMs) <= jumpMs) return Math.max(0, first.atMs + confirmMs - atMs);
    this.#observed.set(uid, { atMs, offsetMs });
    return confirmMs;
  }

  /** The object is not due, or gone. */
  forget(uid: string): void {
    this.#observed.delete(uid);
  }
}
