import type { Clock } from '@conversation-operator/base/clock';

/**
 * The wall clock without its jumps. A stored time is translated when this process first sees it, by
 * what the wall clock had jumped until then, and keeps that translation: so a jump ripens and
 * expires nothing, whether the time was stored before it or after. A time in the future, of a clock
 * that is ahead, counts as the time when it was first seen.
 */
export class SteadyTimes {
  readonly #clock: Clock;
  /**
   * Difference between the wall clock and the monotonic clock at the construction of this object.
   */
  readonly #offsetMs: number;
  /** Translations of stored times, by the key of their object. */
  readonly #translations = new Map<string, ReadonlyMap<number, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offsetMs = clock.now() - clock.monotonic();
  }

  now(): number {
    return this.#clock.monotonic() + this.#offsetMs;
  }

  /**
   * Calls `work` with the translator for the stored times of one object. A translation that this
   * call does not use is forgotten.
   */
  translate<T>(key: string, work: (steady: (ms: number) => number) => T): T {
    const before = this.#translations.get(key);
    const now = this.now();
    const jumpedMs = this.#clock.now() - now;
    const translated = new Map<number, number>();
    const result = work((ms) => {
      const steady = before?.get(ms) ?? Math.min(ms - jumpedMs, now);
      translated.set(ms, steady);
      return steady;
    });
    if (translated.size === 0) this.#translations.delete(key);
    else this.#translations.set(key, translated);
    return result;
  }

  forget(key: string): void {
    this.#translations.delete(key);
  }
}
