import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

/** Maximum keys in memory: of more objects that are due at once, some would never be deleted. */
const maxRemembered = 100_000;
/**
 * Time for which this process must see an object as due before its deletion, and maximum time
 * between two checks, in milliseconds.
 */
const confirmedAfterMs = 120_000;
const checkMs = 20_000;
/** Maximum time between two checks that count as one period, in milliseconds. */
const maxGapMs = 60_000;

/**
 * Maximum drift of the wall clock in that time, in milliseconds: a larger drift means that the
 * clock was set.
 */
const maxDriftMs = 5_000;

interface Observation {
  readonly value: unknown;
  /** Monotonic time at which this process first saw the value. */
  readonly firstAt: number;
  /** Difference between the wall clock and the monotonic clock at that time. */
  readonly offsetMs: number;
  lastAt: number;
}

/**
 * Guards against jumps of the wall clock: measures by the monotonic clock of this process for how
 * long it has seen a value. Each key has one value; a new value replaces the old one and starts at
 * 0. Another process starts from zero.
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
   * Whole milliseconds since a stored time, for a deadline, never too many. Neither a clock jump
   * nor another leader's fast clock ends anything early; a new leader may end it late.
   */
  elapsedMs(key: string, since: string): number {
    // A timer for the remaining fraction of a millisecond would fire at once, over and over.
    return Math.floor(this.lastsMs(key, since));
  }

  /**
   * A stored time on the monotonic clock, by the age that it had when this process first saw it. A
   * clock jump changes no age; a time in the future counts from when it was first seen.
   */
  beganAt(key: string, since: number): number {
    const { firstAt, offsetMs } = this.#observe(key, since);
    return firstAt - Math.max(0, firstAt + offsetMs - since);
  }

  /**
   * Delay in milliseconds until the next check of an object that is due since `dueAt`; 0 when it
   * may be deleted: every check of two minutes without a change of the wall clock has seen it as
   * due. The caller calls `forget` for objects that are no longer due. A wall clock that is wrong
   * for a moment deletes nothing.
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

/** Whether a timestamp is younger than the bound; one in the future has an unknown age. */
export const isWithin = (
  boundMs: number,
  timestamp: string | undefined,
  nowMs: number,
): boolean => {
  const ageMs = nowMs - Date.parse(timestamp ?? '');
  return ageMs >= 0 && ageMs < boundMs;
};
