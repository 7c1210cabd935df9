import { AgentError } from '../agent/errors.ts';
import { backoffDelayMs } from '@conversation-operator/kube/backoff';
import type { Clock } from '@conversation-operator/kube/clock';
import { LruMap } from '@conversation-operator/kube/lru-map';
import { Shares, type Holder, type Release } from '@conversation-operator/kube/shares';
import { abortedAfter } from './aborted-after.ts';

export interface PollLaneOptions {
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  /** Polls at once whose agents may still answer at once, 64 by default. */
  readonly quick?: number;
  /** Polls at once of agents that take their time, 64 by default. */
  readonly slow?: number;
  /** Whether a poll waits for a quick place, as by default, or is told to come again. */
  readonly waits?: boolean;
  /** Maximum delay before an agent is asked again that does not answer, 15,000 ms by default. */
  readonly maxDelayMs?: number;
}

/** Who is asked. */
export interface Polled {
  /** The container: another one begins with a clean slate. */
  readonly agent: string;
  /** Whose share of the places it takes. */
  readonly owner: string;
}

/** There is no answer. */
export interface Later {
  /** When to ask again. */
  readonly laterMs: number;
  /** What came instead; absent: nobody has been asked. */
  readonly error?: AgentError;
}

export type PollResult<T> = { readonly answer: T; readonly beganAt: number } | Later;

interface Trouble {
  readonly failures: number;
  readonly nextAt: number;
  /** It did not answer at all. */
  readonly silent: boolean;
  asking: boolean;
}

/** An agent answers in 20 ms. One that has not in this time leaves its place to others. */
const quickMs = 500;
const patienceMs = 3_000;
/** For one that is known to be slow. */
const longPatienceMs = 10_000;
const noRoomMs = 1_000;
/** Longer than a thousand agents that have just fallen silent keep the quick places. */
const maxWaitMs = 30_000;
/** More than there are workers that could wait. */
const maxWaiting = 4_096;
const maxRemembered = 20_000;

/** There is no place for a poll. */
class NoPlace extends Error {
  override readonly name = 'NoPlace';
}

/**
 * The way of all polls to agents. Many agents that don't answer must not stop those that do: a poll holds one of the quick places for
 * half a second at most, then one of the slow ones or none; who has not answered the last time is asked in a slow place alone, one
 * poll at a time, and less and less often. Of each kind of place an owner has a quarter at most, and owners that wait take turns.
 */
export class PollLane {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #quick: Shares;
  readonly #slow: Shares;
  readonly #backoff: { readonly baseMs: number; readonly capMs: number; readonly jitter: number };
  readonly #troubles = new LruMap<string, Trouble>(maxRemembered);

  constructor({ clock, random, quick = 64, slow = 64, waits = true, maxDelayMs = 15_000 }: PollLaneOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#backoff = { baseMs: 1_000, capMs: maxDelayMs, jitter: 0.1 };
    const refuse = () => new NoPlace('no place');
    const places = (total: number) => ({ total, perOwner: Math.ceil(total / 4), refuse });
    const waiting = { clock, maxMs: maxWaitMs, total: maxWaiting, perOwner: maxWaiting };
    this.#quick = new Shares({ ...places(quick), ...(waits ? { waiting } : {}) });
    this.#slow = new Shares(places(slow));
  }

  /** Under way. */
  get inUse(): number {
    return this.#quick.inUse + this.#slow.inUse;
  }

  /** Throws what is no `AgentError`, and when the signal is aborted. */
  async poll<T>({ agent, owner }: Polled, call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<PollResult<T>> {
    const trouble = this.#troubles.get(agent);
    if (trouble !== undefined) {
      const waitMs = trouble.nextAt - this.#clock.monotonic();
      if (waitMs > 0) return { laterMs: waitMs };
      if (trouble.asking) return { laterMs: noRoomMs };
    }
    try {
      if (trouble?.silent !== true) {
        const release = await this.#quick.wait({ owner }, { signal });
        return await this.#quickly(agent, { owner }, release, call, signal);
      }
      if (!this.#slow.hasRoom({ owner })) return { laterMs: noRoomMs };
      const release = this.#slow.take({ owner });
      trouble.asking = true;
      try {
        return await this.#call(agent, call, longPatienceMs, signal);
      } finally {
        trouble.asking = false;
        release();
      }
    } catch (error) {
      if (error instanceof NoPlace) return { laterMs: noRoomMs };
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
    const giveUp = new AbortController();
    let leaveSlow: Release | undefined;
    const timer = this.#clock.after(quickMs, () => {
      leaveQuick();
      if (this.#slow.hasRoom(holder)) leaveSlow = this.#slow.take(holder);
      else giveUp.abort(new Error('too many agents do not answer'));
    });
    const passOn = () => giveUp.abort(signal.reason);
    signal.addEventListener('abort', passOn, { once: true });
    if (signal.aborted) passOn();
    try {
      return await this.#call(agent, call, patienceMs, giveUp.signal, signal);
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
    const patience = abortedAfter(this.#clock, timeoutMs, signal);
    const beganAt = this.#clock.monotonic();
    try {
      const answer = await call(patience.signal);
      this.#troubles.delete(agent);
      return { answer, beganAt };
    } catch (error) {
      if (!(error instanceof AgentError) || outer.aborted) throw error;
      return { laterMs: this.failed(agent, error), error };
    } finally {
      patience.cancel();
    }
  }

  /** Whether it did not answer at all when it was last asked. */
  isSilent(agent: string): boolean {
    return this.#troubles.get(agent)?.silent === true;
  }

  /** An agent has failed, in a poll or in what followed. Returns how long to leave it alone. */
  failed(agent: string, error: AgentError): number {
    const failures = (this.#troubles.get(agent)?.failures ?? 0) + 1;
    const delayMs = backoffDelayMs(this.#backoff, failures, this.#random);
    const silent = error.status === undefined && error.code !== 'malformed';
    this.#troubles.set(agent, { failures, silent, nextAt: this.#clock.monotonic() + delayMs, asking: false });
    return delayMs;
  }

  /** It has just said something itself: it is worth another attempt now. */
  nudge(agent: string): void {
    const trouble = this.#troubles.get(agent);
    if (trouble !== undefined) this.#troubles.set(agent, { ...trouble, nextAt: this.#clock.monotonic() });
  }
}
