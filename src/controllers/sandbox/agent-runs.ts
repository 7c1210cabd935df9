import type { AgentClient, AgentEndpoint } from '../../agent/agent.ts';
import { AgentError } from '../../agent/errors.ts';
import type { Logger } from '../../observability/logger.ts';

export interface AgentRunsOptions {
  readonly agent: AgentClient;
  readonly logger: Logger;
}

/** The runs in the agent of a sandbox that is to stop. An agent that does not answer is logged, and taken for one without runs. */
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

  async interrupt(endpoint: AgentEndpoint, ids: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      await Promise.all(ids.map((id) => this.#options.agent.interrupt(endpoint, id, { signal })));
    } catch (error) {
      this.#unasked(endpoint, error);
    }
  }

  #unasked(endpoint: AgentEndpoint, error: unknown): void {
    if (!(error instanceof AgentError)) throw error;
    const { logger } = this.#options;
    logger.info('agent could not be asked to pause; its pod is stopped all the same', { agent: endpoint.baseUrl, code: error.code });
  }
}
