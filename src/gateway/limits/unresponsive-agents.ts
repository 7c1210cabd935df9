import { backoffDelayMs, type BackoffOptions } from '@conversation-operator/kube/backoff';
import type { Clock } from '@conversation-operator/kube/clock';
import { LruMap } from '@conversation-operator/kube/lru-map';

interface Silence {
  readonly failures: number;
  /** Monotonic time at which the agent may be called again, in milliseconds. */
  readonly nextAt: number;
}

const backoff: BackoffOptions = { baseMs: 1_000, capMs: 15_000, jitter: 0.1 };
const maxRemembered = 20_000;

/**
 * Agents that have not answered their last call in time. Until a delay has passed, which doubles
 * with each such call, no request waits for them again; then one caller finds out, and the others
 * are still refused.
 */
export class UnresponsiveAgents {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #silences = new LruMap<string, Silence>(maxRemembered);
  readonly #probes = new Set<string>();

  constructor({
    clock,
    random = Math.random,
  }: {
    readonly clock: Clock;
    /** Uniform in 0..1. */ readonly random?: () => number;
  }) {
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Calls an agent, unless it has just been silent.
   * @param agent Names its container: another one in the same sandbox begins anew.
   * @param call Rejects with what `isSilence` accepts where no answer has come.
   * @returns The delay before the agent may be called again, in milliseconds, where it was not
   * called now.
   */
  async call<T>(
    agent: string,
    call: () => Promise<T>,
    isSilence: (error: unknown) => boolean,
  ): Promise<{ readonly answer: T } | { readonly restMs: number }> {
    const silence = this.#silences.get(agent);
    const restMs = (silence?.nextAt ?? 0) - this.#clock.monotonic();
    if (silence !== undefined && (restMs > 0 || this.#probes.has(agent)))
      return { restMs: Math.max(restMs, backoff.baseMs) };
    if (silence !== undefined) this.#probes.add(agent);
    try {
      const answer = await call();
      this.#silences.delete(agent);
      return { answer };
    } catch (error) {
      if (isSilence(error)) this.#failed(agent);
      throw error;
    } finally {
      if (silence !== undefined) this.#probes.delete(agent);
    }
  }

  /** Calls that began together fail together, and count once. */
  #failed(agent: string): void {
    const { failures, nextAt } = this.#silences.get(agent) ?? { failures: 0, nextAt: -Infinity };
    const now = this.#clock.monotonic();
    if (now < nextAt) return;
    this.#silences.set(agent, {
      failures: failures + 1,
      nextAt: now + backoffDelayMs(backoff, failures + 1, this.#random),
    });
  }
}
