import { backoffDelayMs, type BackoffOptions } from '@conversation-operator/base/backoff';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

interface Silence {
  readonly failures: number;
  /** Monotonic time at which the server may be called again, in milliseconds. */
  readonly nextAt: number;
}

export interface CircuitBreakersOptions {
  readonly clock: Clock;
  /** Returns uniformly distributed numbers from 0 to 1; default `Math.random`. */
  readonly random?: () => number;
}

const backoff: BackoffOptions = { baseMs: 1_000, capMs: 15_000, jitter: 0.1 };
const maxRemembered = 20_000;

/**
 * A circuit breaker for each of many servers. After a call without a response in time, further
 * calls are refused for a delay that doubles with each such call. After the delay, only one caller
 * at a time may try the server, until a call succeeds.
 */
export class CircuitBreakers {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #silences = recentlyUsed<Silence>(maxRemembered);
  readonly #probes = new Set<string>();

  constructor({ clock, random = Math.random }: CircuitBreakersOptions) {
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Calls a server unless its circuit is open.
   * @param server Identifier of the process: a new process at the same address has a new circuit.
   * @param call Rejects with an error that `isSilence` accepts if no response arrived.
   * @returns The answer. If the circuit is open, the milliseconds before the next attempt.
   */
  async call<T>(
    server: string,
    call: () => Promise<T>,
    isSilence: (error: unknown) => boolean,
  ): Promise<{ readonly answer: T } | { readonly restMs: number }> {
    const silence = this.#silences.get(server);
    const restMs = (silence?.nextAt ?? 0) - this.#clock.monotonic();
    if (silence !== undefined && (restMs > 0 || this.#probes.has(server)))
      return { restMs: Math.max(restMs, backoff.baseMs) };
    if (silence !== undefined) this.#probes.add(server);
    try {
      const answer = await call();
      this.#silences.delete(server);
      return { answer };
    } catch (error) {
      if (isSilence(error)) this.#failed(server);
      throw error;
    } finally {
      if (silence !== undefined) this.#probes.delete(server);
    }
  }

  /** Counts concurrent calls that fail together as one failure. */
  #failed(server: string): void {
    const { failures, nextAt } = this.#silences.get(server) ?? { failures: 0, nextAt: -Infinity };
    const now = this.#clock.monotonic();
    if (now < nextAt) return;
    this.#silences.set(server, {
      failures: failures + 1,
      nextAt: now + backoffDelayMs(backoff, failures + 1, this.#random),
    });
  }
}
