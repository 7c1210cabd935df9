import type { Clock } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import { CircuitBreakers } from '@conversation-operator/http/limits/circuit-breakers';
import { AgentError } from '../../agent/errors.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { agentTimeout } from '../proxy/agent-errors.ts';

/** The agent that a read is for, and its owner. */
export interface ReadAgent {
  readonly owner: string;
  readonly sandbox: string;
  /** Names the container that the agent runs in. */
  readonly container: string;
}

/**
 * Reads from agents on behalf of clients. An agent that is slow or silent holds few places, all of
 * them of its own owner.
 */
export class AgentReads {
  readonly #clock: Clock;
  readonly #firstByteMs: number;
  readonly #places: Shares;
  readonly #silent: CircuitBreakers;

  constructor({
    clock,
    places,
    firstByteMs = 10_000,
  }: {
    readonly clock: Clock;
    readonly places: Shares;
    /** Maximum time until the first byte of an agent's answer, in milliseconds. */
    readonly firstByteMs?: number | undefined;
  }) {
    this.#clock = clock;
    this.#firstByteMs = firstByteMs;
    this.#silent = new CircuitBreakers({ clock });
    this.#places = places;
  }

  /**
   * Reads as soon as there is a place. Throws a problem where there is none in time, and where the
   * agent is silent.
   * @param begin Resolves when the agent has begun its answer.
   * @param pass Takes the rest of it; the place is held until it is over.
   */
  async read<T, R>(
    { owner, sandbox, container }: ReadAgent,
    signal: AbortSignal,
    begin: (signal: AbortSignal) => Promise<T>,
    pass: (answer: T) => R | Promise<R>,
  ): Promise<R> {
    const release = await this.#places.wait({ owner, sandbox }, { signal });
    try {
      const asked = await this.#silent.call(
        container,
        () => this.#inTime(begin, signal),
        isSilence,
      );
      if ('restMs' in asked) throw agentSilent(asked.restMs);
      return await pass(asked.answer);
    } finally {
      release();
    }
  }

  async #inTime<T>(begin: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const late = new AbortController();
    const timer = this.#clock.after(this.#firstByteMs, () =>
      late.abort(new Error('the agent has not begun its answer in time')),
    );
    // The rest of the answer may be given up as well.
    const giveUp = () => late.abort(signal.reason);
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await begin(late.signal);
    } catch (error) {
      throw late.signal.aborted && !signal.aborted ? agentTimeout(error) : error;
    } finally {
      timer.cancel();
    }
  }
}

const agentSilent = (restMs: number): ProblemError =>
  new ProblemError(
    'agent-silent',
    'The agent has not answered lately. The gateway asks again a little later.',
    {
      headers: { 'retry-after': String(Math.max(1, Math.ceil(restMs / 1000))) },
    },
  );

/** Whether the agent gave no answer at all; a refusal is an answer. */
const isSilence = (error: unknown): boolean =>
  error instanceof ProblemError
    ? error.code === 'agent-timeout'
    : error instanceof AgentError && silentCodes.has(error.code);
const silentCodes: ReadonlySet<unknown> = new Set(['timeout', 'unreachable']);
