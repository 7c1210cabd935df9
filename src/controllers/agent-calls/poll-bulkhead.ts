import { AgentError } from '../../agent/errors.ts';
import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { Shares, type Holder, type Release } from '@conversation-operator/base/shares';
import { abortedAfter } from './aborted-after.ts';

export interface PollBulkheadOptions {
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  /** Maximum concurrent polls in their first `quickMs` (quick permits). Default 64. */
  readonly quick?: number;
  /**
   * Maximum concurrent polls after `quickMs` or of unresponsive agents (slow permits). Default 64.
   */
  readonly slow?: number;
  /** Whether a poll waits for a quick permit. Otherwise the poll ends at once. Default true. */
  readonly waits?: boolean;
  /** Maximum delay in milliseconds before an unresponsive agent is polled again. Default 15,000. */
  readonly maxDelayMs?: number;
}

export interface PollTarget {
  /** Key of the agent's container. A new container starts without failures. */
  readonly agent: string;
  /** Owner whose share of the permits the poll uses. */
  readonly owner: string;
}

export interface Unanswered {
  /** Milliseconds until the next poll. */
  readonly laterMs: number;
  /** Error of the call; absent when the agent was not called. */
  readonly error?: AgentError;
}

export type PollResult<T> = { readonly answer: T; readonly beganAt: number } | Unanswered;

interface Failures {
  readonly failures: number;
  readonly nextAt: number;
  /** Whether the last call got no answer at all. */
  readonly isUnresponsive: boolean;
  isPolling: boolean;
}

/** Maximum time in which a poll holds a quick permit. An agent usually answers in 20 ms. */
const quickMs = 500;
const quickTimeoutMs = 3_000;
const slowTimeoutMs = 10_000;
/** Delay before the next poll after a poll that got no permit. */
const fullRetryMs = 1_000;
/** Maximum wait for a quick permit. 1,000 unresponsive agents occupy 64 permits for about 8 s. */
const maxWaitMs = 30_000;
/** Maximum waiting polls, which is more than the number of workers. */
const maxWaiting = 4_096;
/** Maximum agents whose failures are remembered. */
const maxRemembered = 20_000;

class BulkheadFull extends Error {
  override readonly name = 'BulkheadFull';
}

/** Whether an error means that the agent sent no answer at all. */
export const isUnanswered = ({ status, code }: AgentError): boolean =>
  status === undefined && code !== 'malformed';

/**
 * A bulkhead for the polls of agents, so that many unresponsive agents do not delay the polls of
 * other agents. A poll holds a quick permit for at most half a second. After that the poll needs a
 * slow permit, or ends. An agent that did not answer the last call is polled with a slow permit
 * only, by one poll at a time and with growing delays. An owner holds at most a quarter of the
 * permits of each kind, and waiting owners are served round robin.
 */
export class PollBulkhead {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #quick: Shares;
  readonly #slow: Shares;
  readonly #backoff: { readonly baseMs: number; readonly capMs: number; readonly jitter: number };
  readonly #failures = recentlyUsed<Failures>(maxRemembered);

  constructor({
    clock,
    random,
    quick = 64,
    slow = 64,
    waits = true,
    maxDelayMs = 15_000,
  }: PollBulkheadOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#backoff = { baseMs: 1_000, capMs: maxDelayMs, jitter: 0.1 };
    const refuse = () => new BulkheadFull('no place');
    const places = (total: number) => ({ total, perOwner: Math.ceil(total / 4), refuse });
    const waiting = { clock, maxMs: maxWaitMs, total: maxWaiting, perOwner: maxWaiting };
    this.#quick = new Shares({ ...places(quick), ...(waits ? { waiting } : {}) });
    this.#slow = new Shares(places(slow));
  }

  get inUse(): number {
    return this.#quick.inUse + this.#slow.inUse;
  }

  /** Calls the agent. Throws if the signal is aborted, and for errors other than `AgentError`. */
  async poll<T>(
    { agent, owner }: PollTarget,
    call: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<PollResult<T>> {
    const known = this.#failures.get(agent);
    if (known !== undefined) {
      const waitMs = known.nextAt - this.#clock.monotonic();
      if (waitMs > 0) return { laterMs: waitMs };
      if (known.isPolling) return { laterMs: fullRetryMs };
    }
    try {
      if (known?.isUnresponsive !== true) {
        const release = await this.#quick.wait({ owner }, { signal });
        return await this.#quickly(agent, { owner }, release, call, signal);
      }
      if (!this.#slow.hasRoom({ owner })) return { laterMs: fullRetryMs };
      const release = this.#slow.take({ owner });
      known.isPolling = true;
      try {
        return await this.#call(agent, call, slowTimeoutMs, signal);
      } finally {
        known.isPolling = false;
        release();
      }
    } catch (error) {
      if (error instanceof BulkheadFull) return { laterMs: fullRetryMs };
      throw error;
    }
  }

  async #quickly<T>(
    agent: string,
    holder: Holder,
    leaveQuick: Release,
    call: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<PollResult<T>> {
    const abandoned = new AbortController();
    let leaveSlow: Release | undefined;
    const timer = this.#clock.after(quickMs, () => {
      leaveQuick();
      if (this.#slow.hasRoom(holder)) leaveSlow = this.#slow.take(holder);
      else abandoned.abort(new Error('too many agents do not answer'));
    });
    const passOn = () => abandoned.abort(signal.reason);
    signal.addEventListener('abort', passOn, { once: true });
    if (signal.aborted) passOn();
    try {
      return await this.#call(agent, call, quickTimeoutMs, abandoned.signal, signal);
    } finally {
      signal.removeEventListener('abort', passOn);
      timer.cancel();
      leaveQuick();
      leaveSlow?.();
    }
  }

  async #call<T>(
    agent: string,
    call: (signal: AbortSignal) => Promise<T>,
    timeoutMs: number,
    signal: AbortSignal,
    outer: AbortSignal = signal,
  ): Promise<PollResult<T>> {
    const timeout = abortedAfter(this.#clock, timeoutMs, signal);
    const beganAt = this.#clock.monotonic();
    try {
      const answer = await call(timeout.signal);
      this.#failures.delete(agent);
      return { answer, beganAt };
    } catch (error) {
      if (!(error instanceof AgentError) || outer.aborted) throw error;
      return { laterMs: this.recordFailure(agent, error), error };
    } finally {
      timeout.cancel();
    }
  }

  isUnresponsive(agent: string): boolean {
    return this.#failures.get(agent)?.isUnresponsive === true;
  }

  /** Records a failed poll or another failed call. Returns the milliseconds until the next poll. */
  recordFailure(agent: string, error: AgentError): number {
    const failures = (this.#failures.get(agent)?.failures ?? 0) + 1;
    const delayMs = backoffDelayMs(this.#backoff, failures, this.#random);
    this.#failures.set(agent, {
      failures,
      isUnresponsive: isUnanswered(error),
      nextAt: this.#clock.monotonic() + delayMs,
      isPolling: false,
    });
    return delayMs;
  }

  /** Makes the next poll due now, because the agent has just sent a webhook. */
  retryNow(agent: string): void {
    const known = this.#failures.get(agent);
    if (known !== undefined)
      this.#failures.set(agent, { ...known, nextAt: this.#clock.monotonic() });
  }
}
