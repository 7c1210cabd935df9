import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

export interface UnresponsiveAgentsOptions {
  readonly clock: Clock;
  /**
   * Milliseconds without an answer after which an agent is unresponsive. Default 60,000: a busy
   * agent stalls for seconds.
   */
  readonly boundMs?: number;
}

interface Failing {
  /** Monotonic time of the first failure. */
  readonly since: number;
  isReported: boolean;
}

/** Maximum agents in memory: a call may fail after the end of its sandbox. */
const maxRemembered = 10_000;

/**
 * Records since when agents do not answer, by the UID of their sandbox, or since when reports about
 * conversations are malformed. The record is in memory only; a new process starts from zero.
 */
export class UnresponsiveAgents {
  readonly #clock: Clock;
  readonly #boundMs: number;
  readonly #failing = recentlyUsed<Failing>(maxRemembered);

  constructor({ clock, boundMs = 60_000 }: UnresponsiveAgentsOptions) {
    this.#clock = clock;
    this.#boundMs = boundMs;
  }

  /** Records a failure. Returns true once, with the first failure after the bound. */
  recordFailure(key: string): boolean {
    const failing = this.#failing.get(key) ?? { since: this.#clock.monotonic(), isReported: false };
    this.#failing.set(key, failing);
    if (failing.isReported || !this.isUnresponsive(key)) return false;
    failing.isReported = true;
    return true;
  }

  /** Forgets the failures of an agent that has answered, or is no longer called. */
  forget(key: string): void {
    this.#failing.delete(key);
  }

  isUnresponsive(key: string): boolean {
    const failing = this.#failing.get(key);
    return failing !== undefined && this.#clock.monotonic() - failing.since >= this.#boundMs;
  }
}
