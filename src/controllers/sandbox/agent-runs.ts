import type { AgentClient, AgentEndpoint } from '../../agent/agent.ts';
import { AgentError } from '../../agent/errors.ts';
import type { Logger } from '@conversation-operator/base/logger';

export interface AgentRunsOptions {
  readonly agent: AgentClient;
  readonly logger: Logger;
}

/**
 * Text for the model, and for the readers of the conversation. An action that waits when its agent
 * is stopped, and is answered after that, leaves a result without its request in the messages of
 * openhands-agent-server 1.58 to the model. Therefore the action is rejected before.
 */
const rejection =
  'The sandbox was paused before this action was confirmed. It has not been executed. Ask for it again if it is still needed.';

/**
 * The runs in the agent of a sandbox that is to stop. An agent that does not answer is logged, and
 * counts as one without runs.
 */
export class AgentRuns {
  readonly #options: AgentRunsOptions;

  constructor(options: AgentRunsOptions) {
    this.#options = options;
  }

  /** The ids of the conversations that run. */
  async running(endpoint: AgentEndpoint, signal: AbortSignal): Promise<readonly string[]> {
    const { agent } = this.#options;
    return (await this.#ask(endpoint, agent.runningConversations(endpoint, { signal }))) ?? [];
  }

  /** The ids of the conversations whose action waits for a confirmation. */
  async waiting(endpoint: AgentEndpoint, signal: AbortSignal): Promise<readonly string[]> {
    const { agent } = this.#options;
    return (await this.#ask(endpoint, agent.waitingConversations(endpoint, { signal }))) ?? [];
  }

  async rejectAndInterrupt(
    endpoint: AgentEndpoint,
    { running, waiting }: Readonly<Record<'running' | 'waiting', readonly string[]>>,
    signal: AbortSignal,
  ) {
    const { agent } = this.#options;
    const rejected = waiting.map((id) => agent.rejectPending(endpoint, id, rejection, { signal }));
    await this.#ask(endpoint, Promise.all(rejected));
    await this.interrupt(endpoint, running, signal);
  }

  async interrupt(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const { agent } = this.#options;
    const interrupted = ids.map((id) => agent.interrupt(endpoint, id, { signal }));
    await this.#ask(endpoint, Promise.all(interrupted));
  }

  /** The answer of an agent; undefined when it does not answer. */
  async #ask<T>(endpoint: AgentEndpoint, answer: Promise<T>): Promise<T | undefined> {
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      const { logger } = this.#options;
      logger.info('agent could not be asked to pause; its pod is stopped all the same', {
        agent: endpoint.baseUrl,
        code: error.code,
      });
      return undefined;
    }
  }
}
