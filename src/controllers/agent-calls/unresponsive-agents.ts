import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

export interface UnresponsiveAgentsOptions {
  readonly clock: Clock;
  /**
   * Minimum milliseconds without an answer that make an agent unresponsive. A busy agent may take
   * seconds to answer. Default 60,000.
   */
  readonly boundMs?: number;
}

interface Failing {
  /** Monotonic time of the first failure. */
  readonly since: number;
  isReported: boolean;
}

/** Maximum agents in memory, including those of deleted sandboxes. */
const maxRemembered = 10_000;

/**
 * Records since when each agent does not answer (by the UID of its sandbox), and since when reports
 * about a conversation are malformed. The record is in memory only: a new process begins a new one.
 */
export class UnresponsiveAgents {
  readonly #clock: Clock;
  readonly #boundMs: number;
  readonly #failing = recentlyUsed<Failing>(maxRemembered);

  constructor({ clock, boundMs = 60_000 }: UnresponsiveAgentsOptions) {
    this.#clock = clock;
    this.#boundMs = boundMs;
  }

  /** Records a failure. Returns true only for the first failure after `boundMs`. */
  recordFailure(key: string): boolean {
    const failing = this.#failing.get(key) ?? { since: this.#clock.monotonic(), isReported: false };
    this.#failing.set(key, failing);
    if (failing.isReported || !this.isUnresponsive(key)) return false;
    failing.isReported = true;
    return true;
  }

  /** Forgets the failures of an agent that has answered or gets no more calls. */
  forget(key: string): void {
    this.#failing.delete(key);
  }

  isUnresponsive(key: string): boolean {
    const failing = this.#failing.get(key);
    return failing !== undefined && this.#clock.monotonic() - failing.since >= this.#boundMs;
  }
}
