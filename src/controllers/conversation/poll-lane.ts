import { AgentError } from '../../agent/errors.ts';
import { backoffDelayMs } from '../../kube/backoff.ts';
import type { Clock } from '../../kube/clock.ts';
import { LruMap } from '../../kube/lru-map.ts';
import { abortedAfter } from './aborted-after.ts';

export interface PollLaneOptions {
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  /** Polls at once whose agents may still answer at once, 64 by default. */
  readonly quick?: number;
  /** Polls at once of agents that take their time, 64 by default. */
  readonly slow?: number;
}

/** There is no answer. */
export interface Later {
  /** When to ask again. */
  readonly laterMs: number;
  /** What came instead; absent: nobody has been asked. */
  readonly error?: AgentError;
}

export type Polled<T> = { readonly answer: T; readonly beganAt: number } | Later;

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
const backoff = { baseMs: 1_000, capMs: 15_000, jitter: 0.1 };
const noRoomMs = 1_000;
const maxRemembered = 20_000;

/**
 * The way of all polls to agents. Many agents that don't answer must not stop those that do: a poll holds one of the quick places for
 * half a second at most, then one of the slow ones or none; who has not answered the last time is asked in a slow place alone, one
 * poll at a time, and less and less often.
 */
export class PollLane {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #quick: number;
  readonly #slow: number;
  readonly #waiting = new Set<() => void>();
  readonly #troubles = new LruMap<string, Trouble>(maxRemembered);
  #quickInUse = 0;
  #slowInUse = 0;

  constructor({ clock, random, quick = 64, slow = 64 }: PollLaneOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#quick = quick;
    this.#slow = slow;
  }

  /** Under way. */
  get inUse(): number {
    return this.#quickInUse + this.#slowInUse;
  }

  /** `agent` names the container: another one begins with a clean slate. Throws what is no `AgentError`, and when the signal is aborted. */
  async poll<T>(agent: string, call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<Polled<T>> {
    const trouble = this.#troubles.get(agent);
    if (trouble !== undefined) {
      const waitMs = trouble.nextAt - this.#clock.monotonic();
      if (waitMs > 0) return { laterMs: waitMs };
      if (trouble.asking) return { laterMs: noRoomMs };
    }
    if (trouble?.silent === true) {
      if (this.#slowInUse >= this.#slow) return { laterMs: noRoomMs };
      this.#slowInUse++;
      trouble.asking = true;
      try {
        return await this.#call(agent, call, longPatienceMs, signal);
      } finally {
        trouble.asking = false;
        this.#slowInUse--;
      }
    }
    await this.#quickPlace(signal);
    return this.#quickly(agent, call, signal);
  }

  async #quickly<T>(agent: string, call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<Polled<T>> {
    const giveUp = new AbortController();
    let place: 'quick' | 'slow' | 'none' = 'quick';
    const timer = this.#clock.after(quickMs, () => {
      this.#leaveQuick();
      place = this.#slowInUse < this.#slow ? 'slow' : 'none';
      if (place === 'slow') this.#slowInUse++;
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
      // Changed by the timer; the compiler does not see that.
      const held = place as 'quick' | 'slow' | 'none';
      if (held === 'quick') this.#leaveQuick();
      else if (held === 'slow') this.#slowInUse--;
    }
  }

  async #call<T>(
    agent: string,
    call: (signal: AbortSignal) => Promise<T>,
    timeoutMs: number,
    signal: AbortSignal,
    outer: AbortSignal = signal,
  ): Promise<Polled<T>> {
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
    const delayMs = backoffDelayMs(backoff, failures, this.#random);
    const silent = error.status === undefined && error.code !== 'malformed';
    this.#troubles.set(agent, { failures, silent, nextAt: this.#clock.monotonic() + delayMs, asking: false });
    return delayMs;
  }

  /** It has just said something itself: it is worth another attempt now. */
  nudge(agent: string): void {
    const trouble = this.#troubles.get(agent);
    if (trouble !== undefined) this.#troubles.set(agent, { ...trouble, nextAt: this.#clock.monotonic() });
  }

  /** First come, first served. */
  async #quickPlace(signal: AbortSignal): Promise<void> {
    if (this.#quickInUse < this.#quick) {
      this.#quickInUse++;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const enter = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.#waiting.delete(enter);
        reject(signal.reason as Error);
      };
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.add(enter);
    });
  }

  /** The place goes to who has waited longest. */
  #leaveQuick(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#quickInUse--;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
