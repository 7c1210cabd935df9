import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Clock } from '@conversation-operator/base/clock';

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
