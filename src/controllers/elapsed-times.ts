import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

/** Maximum keys in memory: of more objects that are due at once, some would never be deleted. */
const maxRemembered = 100_000;
/**
 * Time for which this process has to see an object as due before it deletes it, in milliseconds,
 * and the time between two checks meanwhile.
 */
const confirmedAfterMs = 120_000;
const checkMs = 20_000;
/** Maximum time between two checks that count as one period, in milliseconds. */
const maxGapMs = 60_000;

/** Maximum drift of the wall clock meanwhile, in milliseconds: beyond it, the clock was set. */
const maxDriftMs = 5_000;

interface Observation {
  readonly value: unknown;
  /** When this process has first seen the value, by its monotonic clock. */
  readonly firstAt: number;
  /** Difference between the wall clock and the monotonic clock then. */
  readonly offsetMs: number;
  lastAt: number;
}

/**
 * The guard against jumps of the wall clock: measures by the monotonic clock of this process for
 * how long it has seen a value. Each key has one value, which another one replaces. Another process
 * counts anew.
 */
export class ElapsedTimes {
  readonly #clock: Clock;
  readonly #known = recentlyUsed<Observation>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Milliseconds since this process has first seen that the key has this value. */
  lastsMs(key: string, value: unknown): number {
    return this.#clock.monotonic() - this.#observe(key, value).firstAt;
  }

  /**
   * Whole milliseconds since a stored time for a deadline: never too many. Neither a clock that
   * jumps nor one of another leader that is ahead ends anything early; a new leader may end it
   * late.
   */
  elapsedMs(key: string, since: string): number {
    // A timer for the remaining fraction of a millisecond would fire at once, over and over.
    return Math.floor(this.lastsMs(key, since));
  }

  /**
   * A stored time by the monotonic clock: as long before this process has first seen it as the wall
   * clock said then. A jump changes no age; a time in the future counts from when it was seen.
   */
  beganAt(key: string, since: number): number {
    const { firstAt, offsetMs } = this.#observe(key, since);
    return firstAt - Math.max(0, firstAt + offsetMs - since);
  }

  /**
   * Delay in milliseconds until the next check of an object that is due since `dueAt`; 0 when it
   * may be deleted: all checks of two minutes, in which the wall clock was not set, have seen it as
   * due. The caller forgets what is not due any more. A moment in which the wall clock is wrong
   * deletes nothing.
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

/**
 * Whether the age of a timestamp is below the bound. A time in the future comes from another clock
 * and has no known age.
 */
export const isWithin = (
  boundMs: number,
  timestamp: string | undefined,
  nowMs: number,
): boolean => {
  const ageMs = nowMs - Date.parse(timestamp ?? '');
  return ageMs >= 0 && ageMs < boundMs;
};
