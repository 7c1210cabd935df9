import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { LastingValues } from '../../elapsed-times.ts';

/** Maximum runs in memory. */
const maxRemembered = 20_000;
/**
 * The stored state of an agent lags behind: a report that the run is running is old for this time
 * after an interrupt.
 */
const staleMs = 1_500;

/**
 * Returns a text that changes with each event of the agent and each resume; undefined for a run
 * that is not running or not reported.
 */
const lastSignOf = ({
  executionStatus,
  lastActivityTime,
  agentEpoch,
  interruption,
  messages,
}: ConversationStatus): string | undefined =>
  executionStatus === 'running' && lastActivityTime !== undefined
    ? [
        lastActivityTime,
        agentEpoch,
        interruption?.lastResumeTime,
        messages?.lastDeliveredTime,
      ].join('/')
    : undefined;

/**
 * Measures for how long agents have reported nothing about their runs. An agent reports no event
 * while a tool runs, while the model answers, or while the agent hangs; so a limit helps only users
 * who know how long their tools take. The begin of a run is not always an event either, so the time
 * counts from the first poll of this process that shows the run with nothing newer. Another process
 * counts anew.
 */
export class StuckDetection {
  readonly #clock: Clock;
  readonly #lastSigns: LastingValues;
  /** Time of the last interrupt of each run, successful or not. */
  readonly #interruptedAt = recentlyUsed<number>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.#lastSigns = new LastingValues({ clock });
  }

  /** Milliseconds for which the agent has reported nothing new, including this poll. */
  quietMs(key: string, status: ConversationStatus): number {
    const sign = lastSignOf(status);
    if (sign !== undefined) return this.#lastSigns.lastsMs(key, sign);
    this.#lastSigns.forget(key);
    return 0;
  }

  /**
   * Records an interrupt. A run whose agent did not accept the interrupt stays quiet, and is
   * interrupted again.
   */
  recordInterrupt(key: string, isAccepted: boolean): void {
    this.#interruptedAt.set(key, this.#clock.monotonic());
    if (isAccepted) this.#lastSigns.forget(key);
  }

  /** Whether a report that the run is running may be from before the interrupt. */
  isInterrupting(key: string): boolean {
    const interruptedAt = this.#interruptedAt.get(key);
    return interruptedAt !== undefined && this.#clock.monotonic() - interruptedAt < staleMs;
  }
}
