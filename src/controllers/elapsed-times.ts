import type { Clock } from '@conversation-operator/kube/clock';
import { LruMap } from '@conversation-operator/kube/lru-map';

interface Beginning {
  readonly since: string;
  /** By the monotonic clock of this process. */
  readonly seenAt: number;
}

const maxRemembered = 20_000;

/**
 * How long something has surely lasted whose beginning is stored as a wall clock time. A deadline must not pass because a clock
 * jumps, or because the next leader's clock is ahead: the time counts that has passed by the wall clock and, at the same time, under
 * the eyes of this process. Another process counts anew, so a deadline may come late, never early.
 */
export class ElapsedTimes {
  readonly #clock: Clock;
  readonly #beginnings = new LruMap<string, Beginning>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Whole milliseconds since `since` for a deadline: never too many. Each key has one beginning at a time: another one replaces it. */
  elapsedMs(key: string, since: string): number {
    const observedMs = this.#observedMs(key, since);
    const wallMs = this.#clock.now() - Date.parse(since);
    // The clock that wrote the time was ahead: the wall clock says nothing about how long ago that was.
    // A fraction that is left of a deadline would be waited for over and over, in no time.
    return Math.floor(wallMs >= 0 ? Math.min(wallMs, observedMs) : observedMs);
  }

  /** The same for the pace of repetitions, which has to slow down also where a clock is behind: never too few. */
  paceMs(key: string, since: string): number {
    return Math.max(this.#observedMs(key, since), this.#clock.now() - Date.parse(since));
  }

  #observedMs(key: string, since: string): number {
    const now = this.#clock.monotonic();
    const known = this.#beginnings.get(key);
    if (known?.since === since) return now - known.seenAt;
    this.#beginnings.set(key, { since, seenAt: now });
    return 0;
  }
}
