import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

/** Maximum keys in memory. */
const maxRemembered = 20_000;

/**
 * Measures for how long values last, by the monotonic clock of this process. Each key has one
 * value, which another one replaces. Another process counts anew.
 */
export class LastingValues {
  readonly #clock: Clock;
  readonly #known = recentlyUsed<{
    readonly value: unknown;
    readonly since: number;
    readonly seenAt: number;
  }>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /**
   * Milliseconds since this process has first observed that the key has this value, without a gap
   * of more than `maxGapMs` between two observations.
   */
  lastsMs(key: string, value: unknown, maxGapMs = Infinity): number {
    const now = this.#clock.monotonic();
    const known = this.#known.get(key);
    const isSame = known?.value === value && now - (known?.seenAt ?? now) <= maxGapMs;
    const since = known !== undefined && isSame ? known.since : now;
    this.#known.set(key, { value, since, seenAt: now });
    return now - since;
  }

  forget(key: string): void {
    this.#known.delete(key);
  }
}

/**
 * ElapsedTimes measures periods whose beginning is stored as a wall clock time. A deadline must not
 * pass because a clock jumps, or because the next leader's clock is ahead. Therefore only time
 * counts that has passed both by the wall clock and by the monotonic clock of this process. Another
 * process counts anew, so a deadline may come late, never early.
 */
export class ElapsedTimes {
  readonly #clock: Clock;
  readonly #beginnings: LastingValues;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.#beginnings = new LastingValues({ clock });
  }

  /**
   * Whole milliseconds since `since` for a deadline: never too many. Each key has one beginning,
   * which another one replaces.
   */
  elapsedMs(key: string, since: string): number {
    const observedMs = this.#beginnings.lastsMs(key, since);
    const wallMs = this.#clock.now() - Date.parse(since);
    // A negative `wallMs` comes from a clock that was ahead, so the wall clock does not count. The
    // result is rounded down, because a timer for the remaining fraction of a millisecond would
    // fire at once, over and over.
    return Math.floor(wallMs >= 0 ? Math.min(wallMs, observedMs) : observedMs);
  }

  /**
   * Milliseconds since `since` for the pace of repetitions: never too few, so that the pace slows
   * down also where a clock is behind.
   */
  paceMs(key: string, since: string): number {
    return Math.max(this.#beginnings.lastsMs(key, since), this.#clock.now() - Date.parse(since));
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
