import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { PollBulkhead, PollResult, PollTarget } from '../../agent-calls/poll-bulkhead.ts';

export interface AgentPollerOptions {
  readonly agent: Pick<AgentClient, 'conversation' | 'conversations'>;
  readonly bulkhead: PollBulkhead;
  readonly clock: Clock;
}

export interface AgentTarget extends PollTarget {
  readonly endpoint: AgentEndpoint;
}

type Answers = ReadonlyMap<string, AgentConversation | AgentError | undefined>;

interface Batch {
  readonly ids: Set<string>;
  readonly answers: Promise<PollResult<Answers>>;
}

/** Delay of a poll, during which polls of the same agent join the batch. */
const batchDelayMs = 5;
const maxBatch = 20;
/** Delay before the next poll of a conversation whose report is malformed or too large. */
const unreadableMs = 15_000;

/** Whether an error concerns one conversation only, and not the agent. */
const isOfConversation = (error: unknown): error is AgentError =>
  error instanceof AgentError &&
  (error.code === 'malformed' ||
    error.code === 'refused' ||
    error.code === 'not-found' ||
    error.code === 'failed');

/**
 * Polls agents. One request asks for all due conversations of a sandbox; requests do not overlap.
 */
export class AgentPoller {
  readonly #options: AgentPollerOptions;
  /** Batches that polls may still join, by agent. */
  readonly #open = new Map<string, Batch>();
  /** The request in progress to each agent, after which the next one is sent. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(options: AgentPollerOptions) {
    this.#options = options;
  }

  /**
   * Polls one conversation. `answer` is undefined when the agent does not know the conversation.
   * Throws errors other than `AgentError`, and when the signal is aborted.
   */
  async poll(
    target: AgentTarget,
    id: string,
    signal: AbortSignal,
  ): Promise<PollResult<AgentConversation | undefined>> {
    const batch = this.#open.get(target.agent) ?? this.#openBatch(target, signal);
    batch.ids.add(id);
    if (batch.ids.size >= maxBatch) this.#open.delete(target.agent);
    const polled = await batch.answers;
    if (!('answer' in polled)) return polled;
    const answer = polled.answer.get(id);
    return answer instanceof AgentError
      ? { laterMs: unreadableMs, error: answer }
      : { answer, beganAt: polled.beganAt };
  }

  #openBatch(target: AgentTarget, signal: AbortSignal): Batch {
    const { bulkhead, clock } = this.#options;
    const { endpoint, agent } = target;
    const ids = new Set<string>();
    const due = new Promise<void>((resolve) => void clock.after(batchDelayMs, resolve));
    const before = this.#last.get(agent);
    const answers = due
      .then(() => before)
      .then(() => {
        if (this.#open.get(agent) === batch) this.#open.delete(agent);
        return bulkhead.poll(
          target,
          (timeout) => this.#request(endpoint, [...ids], timeout),
          signal,
        );
      });
    const batch: Batch = { ids, answers };
    this.#open.set(agent, batch);
    const ended: Promise<unknown> = answers
      .catch(() => undefined)
      .then(() => {
        if (this.#last.get(agent) === ended) this.#last.delete(agent);
      });
    this.#last.set(agent, ended);
    return batch;
  }

  async #request(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<Answers> {
    if (ids.length > 1) {
      try {
        const all = await this.#options.agent.conversations(endpoint, ids, { signal });
        return new Map(ids.map((id, index) => [id, all[index]]));
      } catch (error) {
        // One malformed conversation fails the whole request, so each conversation is read alone.
        if (!isOfConversation(error)) throw error;
      }
    }
    const answers = new Map<string, AgentConversation | AgentError | undefined>();
    for (const id of ids) answers.set(id, await this.#requestOne(endpoint, id, signal));
    const [first] = answers.values();
    // If no conversation of the agent can be read, the agent itself has failed.
    if (
      first instanceof AgentError &&
      [...answers.values()].every((answer) => answer instanceof AgentError)
    )
      throw first;
    return answers;
  }

  async #requestOne(
    endpoint: AgentEndpoint,
    id: string,
    signal: AbortSignal,
  ): Promise<AgentConversation | AgentError | undefined> {
    try {
      return await this.#options.agent.conversation(endpoint, id, { signal });
    } catch (error) {
      if (isOfConversation(error)) return error;
      throw error;
    }
  }
}
