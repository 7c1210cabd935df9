import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

const hourMs = 3_600_000;
const maxKeys = 20_000;

/** Counts actions of the last hour by a key, within this process. */
export class HourlyLimit {
  readonly #clock: Clock;
  /** Times of the actions on the monotonic clock. */
  readonly #times = recentlyUsed<readonly number[]>(maxKeys);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one action more; false, and nothing is counted, where the hour has the maximum. */
  take(key: string, maxPerHour: number): boolean {
    const now = this.#clock.monotonic();
    const recent = (this.#times.get(key) ?? []).filter((time) => time > now - hourMs);
    if (recent.length >= maxPerHour) return false;
    this.#times.set(key, [...recent, now]);
    return true;
  }
}
