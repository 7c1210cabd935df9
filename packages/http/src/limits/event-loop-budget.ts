import type { Clock } from '@conversation-operator/base/clock';
import { LRUCache } from 'lru-cache';

/** Maximum part of the event loop's time for one owner while others are active. */
const ownersShare = 1 / 5;
/** Maximum burst of an owner, and maximum debt, in milliseconds of the event loop. */
const burstMs = 50;
const maxDebtMs = 200;
/** Time after its last use in which an owner counts as active. */
const activeMs = 1_000;
const maxOwners = 10_000;

interface Level {
  leftMs: number;
  at: number;
}

/**
 * Counts the recent time of each owner on the event loop. Tasks can't be interrupted, so the
 * requests of one owner may wait for those of another one even where the loop is not saturated.
 * While several owners are active, the budget limits each to a share of the time.
 */
export class EventLoopBudget {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #levels = new LRUCache<string, Level>({ max: maxOwners });
  /** The owner that has used the event loop last, and the time of its last use. */
  #last = { owner: '', at: -Infinity };
  #otherAt = -Infinity;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  use(owner: string, costMs: number): void {
    const now = this.#clock.monotonic();
    if (this.#last.owner !== owner) this.#otherAt = this.#last.at;
    this.#last = { owner, at: now };
    const level = this.#levelOf(owner, now);
    level.leftMs = Math.max(-maxDebtMs, level.leftMs - costMs);
  }

  /** Delay before the owner may use the event loop again, in milliseconds. */
  waitMs(owner: string): number {
    const now = this.#clock.monotonic();
    if (this.#isAlone(owner, now)) return 0;
    const { leftMs } = this.#levelOf(owner, now);
    return leftMs > 0 ? 0 : Math.max(1, -leftMs / ownersShare);
  }

  #isAlone(owner: string, now: number): boolean {
    const otherAt = this.#last.owner === owner ? this.#otherAt : this.#last.at;
    return now - otherAt > activeMs;
  }

  #levelOf(owner: string, now: number): Level {
    const known = this.#levels.get(owner);
    if (known === undefined) {
      const level = { leftMs: burstMs, at: now };
      this.#levels.set(owner, level);
      return level;
    }
    known.leftMs = Math.min(burstMs, known.leftMs + (now - known.at) * ownersShare);
    known.at = now;
    return known;
  }
}
