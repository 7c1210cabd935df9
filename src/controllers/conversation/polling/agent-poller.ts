import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { Clock } from '@conversation-operator/kube/clock';
import { PollLane, type PollResult, type Polled } from '../../poll-bulkhead.ts';

export interface AgentLooksOptions {
  readonly agent: Pick<AgentClient, 'conversation' | 'conversations'>;
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
}

/** Whom to ask. */
export interface Asked extends Polled {
  readonly endpoint: AgentEndpoint;
}

type Answers = ReadonlyMap<string, AgentConversation | AgentError | undefined>;

interface Batch {
  readonly ids: Set<string>;
  readonly answers: Promise<PollResult<Answers>>;
}

/** Those who are due at the same time ask together. */
const gatherMs = 5;
const mostAtOnce = 20;
/** One that can't be read among others that can: it may have grown too large, and does not shrink. */
const unreadableMs = 15_000;

/** What the agent has said of this one conversation, or not said: it tells nothing of the others. */
const isOfOne = (error: unknown): error is AgentError =>
  error instanceof AgentError &&
  (error.code === 'malformed' || error.code === 'refused' || error.code === 'not-found' || error.code === 'failed');

/** Asks agents for conversations: once for all those of a sandbox that are due together, and by one call at a time. */
export class AgentLooks {
  readonly #agent: AgentLooksOptions['agent'];
  readonly #clock: Clock;
  readonly #lane: PollLane;
  /** By agent; each is open for others to join. */
  readonly #gathering = new Map<string, Batch>();
  /** By agent: the last call that has been asked for, until it has ended. */
  readonly #underWay = new Map<string, Promise<unknown>>();

  constructor({ agent, clock, random }: AgentLooksOptions) {
    this.#agent = agent;
    this.#clock = clock;
    this.#lane = new PollLane({ clock, random });
  }

  /** `answer` undefined: the agent does not know it. Throws what is no `AgentError`, and when the signal is aborted. */
  async look(asked: Asked, id: string, signal: AbortSignal): Promise<PollResult<AgentConversation | undefined>> {
    const batch = this.#gathering.get(asked.agent) ?? this.#gather(asked, signal);
    batch.ids.add(id);
    if (batch.ids.size >= mostAtOnce) this.#gathering.delete(asked.agent);
    const polled = await batch.answers;
    if (!('answer' in polled)) return polled;
    const answer = polled.answer.get(id);
    return answer instanceof AgentError ? { laterMs: unreadableMs, error: answer } : { answer, beganAt: polled.beganAt };
  }

  /** Whether it did not answer at all when it was last asked. */
  isSilent({ agent }: Asked): boolean {
    return this.#lane.isSilent(agent);
  }

  /** What followed a look has failed. Returns how long to leave the agent alone. */
  failed({ agent }: Asked, error: AgentError): number {
    return this.#lane.failed(agent, error);
  }

  /** The agent has just said something itself. */
  nudge(agent: string): void {
    this.#lane.nudge(agent);
  }

  #gather(asked: Asked, signal: AbortSignal): Batch {
    const { endpoint, agent } = asked;
    const ids = new Set<string>();
    const due = new Promise<void>((resolve) => void this.#clock.after(gatherMs, resolve));
    const before = this.#underWay.get(agent);
    const answers = due
      .then(() => before)
      .then(() => {
        if (this.#gathering.get(agent) === batch) this.#gathering.delete(agent);
        return this.#lane.poll(asked, (patience) => this.#ask(endpoint, [...ids], patience), signal);
      });
    const batch: Batch = { ids, answers };
    this.#gathering.set(agent, batch);
    const ended: Promise<unknown> = answers
      .catch(() => undefined)
      .then(() => {
        if (this.#underWay.get(agent) === ended) this.#underWay.delete(agent);
      });
    this.#underWay.set(agent, ended);
    return batch;
  }

  async #ask(endpoint: AgentEndpoint, ids: readonly string[], signal: AbortSignal): Promise<Answers> {
    if (ids.length > 1) {
      try {
        const all = await this.#agent.conversations(endpoint, ids, { signal });
        return new Map(ids.map((id, index) => [id, all[index]]));
      } catch (error) {
        // One that is too large, or is none at all, must not hide the others.
        if (!isOfOne(error)) throw error;
      }
    }
    const answers = new Map<string, AgentConversation | AgentError | undefined>();
    for (const id of ids) answers.set(id, await this.#askOne(endpoint, id, signal));
    const [first] = answers.values();
    // Not one of them: it is the agent that can't be understood.
    if (first instanceof AgentError && [...answers.values()].every((answer) => answer instanceof AgentError)) throw first;
    return answers;
  }

  async #askOne(endpoint: AgentEndpoint, id: string, signal: AbortSignal): Promise<AgentConversation | AgentError | undefined> {
    try {
      return await this.#agent.conversation(endpoint, id, { signal });
    } catch (error) {
      if (isOfOne(error)) return error;
      throw error;
    }
  }
}
