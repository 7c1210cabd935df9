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
    try {
      return await this.#options.agent.runningConversations(endpoint, { signal });
    } catch (error) {
      this.#unasked(endpoint, error);
      return [];
    }
  }

  /** The ids of the conversations whose action waits for a confirmation. */
  async waiting(endpoint: AgentEndpoint, signal: AbortSignal): Promise<readonly string[]> {
    try {
      return await this.#options.agent.waitingConversations(endpoint, { signal });
    } catch (error) {
      this.#unasked(endpoint, error);
      return [];
    }
  }

  async rejectAndInterrupt(
    endpoint: AgentEndpoint,
    { running, waiting }: Readonly<Record<'running' | 'waiting', readonly string[]>>,
    signal: AbortSignal,
  ) {
    await this.#reject(endpoint, waiting, signal);
    await this.interrupt(endpoint, running, signal);
  }

  async #reject(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await Promise.all(
        ids.map((id) => this.#options.agent.rejectPending(endpoint, id, rejection, { signal })),
      );
    } catch (error) {
      this.#unasked(endpoint, error);
    }
  }

  async interrupt(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await Promise.all(ids.map((id) => this.#options.agent.interrupt(endpoint, id, { signal })));
    } catch (error) {
      this.#unasked(endpoint, error);
    }
  }

  #unasked(endpoint: AgentEndpoint, error: unknown): void {
    if (!(error instanceof AgentError)) throw error;
    const { logger } = this.#options;
    logger.info('agent could not be asked to pause; its pod is stopped all the same', {
      agent: endpoint.baseUrl,
      code: error.code,
    });
  }
}
