import type { Clock } from '@conversation-operator/base/clock';

export interface DueWatchOptions {
  readonly clock: Clock;
  /** Minimum time for which an object is seen as due before it counts as due, in milliseconds. */
  readonly confirmMs: number;
}

interface Observation {
  /** The time, by the wall clock, at which the announced time ends. */
  readonly dueAtMs: number;
  readonly atMs: number;
  /** Difference between the wall clock and the monotonic clock. */
  readonly offsetMs: number;
}

/** Maximum drift of the wall clock: beyond it, the clock was set. */
const jumpMs = 5_000;

/**
 * DueWatch protects objects that only a jump of the wall clock makes due: an object counts as due
 * once this process has seen it as due since the same time for `confirmMs` of its monotonic clock,
 * in which the wall clock was not set.
 */
export class DueWatch {
  readonly #options: DueWatchOptions;
  /** The first observation of each due object, by uid. */
  readonly #observed = new Map<string, Observation>();

  constructor(options: DueWatchOptions) {
    this.#options = options;
  }

  /**
   * Milliseconds until an object that is due by the wall clock counts as due; 0 when it does
   * already.
   */
  remainingMs(uid: string, dueAtMs: number): number {
    const { clock, confirmMs } = this.#options;
    const atMs = clock.monotonic();
    const offsetMs = clock.now() - atMs;
    const first = this.#observed.get(uid);
    if (first?.dueAtMs === dueAtMs && Math.abs(first.offsetMs - offsetMs) <= jumpMs)
      return Math.max(0, first.atMs + confirmMs - atMs);
    this.#observed.set(uid, { dueAtMs, atMs, offsetMs });
    return confirmMs;
  }

  /** Forgets an object that is not due any more, or does not exist any more. */
  forget(uid: string): void {
    this.#observed.delete(uid);
  }
}
