import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

/** Maximum keys in memory. If more objects are due at once, some objects are never deleted. */
const maxRemembered = 100_000;
/** Time in milliseconds for which checks must find an object due before its deletion. */
const confirmedAfterMs = 120_000;
/** Maximum delay between two of these checks, in milliseconds. */
const checkMs = 20_000;
/** Maximum gap between two checks in milliseconds. After a longer gap, the time starts at 0. */
const maxGapMs = 60_000;

/** Maximum drift of the wall clock in milliseconds; a larger one means that the clock was set. */
const maxDriftMs = 5_000;

interface Observation {
  readonly value: unknown;
  /** Monotonic time at which this process first saw the value. */
  readonly firstAt: number;
  /** Difference between the wall clock and the monotonic clock at `firstAt`. */
  readonly offsetMs: number;
  lastAt: number;
}

/**
 * Measures for how long this process has seen the same value of a key. The monotonic clock
 * measures, so that jumps of the wall clock have no effect. A new value starts at 0, and so does a
 * new process.
 */
export class ElapsedTimes {
  readonly #clock: Clock;
  readonly #known = recentlyUsed<Observation>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Milliseconds since this process first saw this value of the key. */
  lastsMs(key: string, value: unknown): number {
    return this.#clock.monotonic() - this.#observe(key, value).firstAt;
  }

  /**
   * Whole milliseconds since the stored time `since`, for a deadline. Neither a jump of the wall
   * clock nor the fast clock of an earlier leader makes the result too high, so no deadline ends
   * early. After a change of the leader, a deadline may end late.
   */
  elapsedMs(key: string, since: string): number {
    // A fraction of a millisecond would set a timer of 0 ms again and again.
    return Math.floor(this.lastsMs(key, since));
  }

  /**
   * Converts the stored time `since` to the monotonic clock, by its age when this process first saw
   * the value. A jump of the wall clock changes no age. A time in the future becomes the time at
   * which this process first saw it.
   */
  beganAt(key: string, since: number): number {
    const { firstAt, offsetMs } = this.#observe(key, since);
    return firstAt - Math.max(0, firstAt + offsetMs - since);
  }

  /**
   * Delay in milliseconds until the next check of an object that is due since `dueAt`. Returns 0
   * when the object may be deleted: for `confirmMs`, every check has found the object due, and the
   * wall clock was not set. A wall clock that is wrong for a moment therefore deletes nothing. The
   * caller calls `forget` for an object that is not due.
   */
  deletionWaitMs(key: string, dueAt: number, confirmMs = confirmedAfterMs): number {
    const now = this.#clock.monotonic();
    const { lastAt = now, offsetMs = this.#offsetMs } = this.#known.get(key) ?? {};
    if (now - lastAt > maxGapMs || Math.abs(offsetMs - this.#offsetMs) > maxDriftMs)
      this.forget(key);
    const leftMs = confirmMs - this.lastsMs(key, dueAt);
    return Math.max(0, Math.min(leftMs, checkMs));
  }

  forget(key: string): void {
    this.#known.delete(key);
  }

  get #offsetMs(): number {
    return this.#clock.now() - this.#clock.monotonic();
  }

  #observe(key: string, value: unknown): Observation {
    const now = this.#clock.monotonic();
    const known = this.#known.get(key);
    if (known?.value === value && known !== undefined) {
      known.lastAt = now;
      return known;
    }
    const seen = { value, firstAt: now, offsetMs: this.#offsetMs, lastAt: now };
    this.#known.set(key, seen);
    return seen;
  }
}

/** Whether the timestamp is less than `boundMs` old; false for an absent or a future timestamp. */
export const isWithin = (
  boundMs: number,
  timestamp: string | undefined,
  nowMs: number,
): boolean => {
  const ageMs = nowMs - Date.parse(timestamp ?? '');
  return ageMs >= 0 && ageMs < boundMs;
};
