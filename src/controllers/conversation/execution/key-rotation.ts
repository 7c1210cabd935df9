import { createHash } from 'node:crypto';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';

/** How an agent says that the model's host does not take its key. */
const keyRefused = 'LLMAuthenticationError';

export interface KeyRotationOptions {
  readonly agent: AgentClient;
  readonly configurations: AgentConfigurations;
}

/**
 * Gives a conversation whose model has refused its key the one that there is now, so that its next run has it. What has been given is
 * remembered by this process alone: another one gives it once more, which changes nothing.
 */
export class KeyRotation {
  readonly #options: KeyRotationOptions;
  /** By namespace and name: the uid, and the SHA-256 of the key. */
  readonly #given = new Map<string, string>();

  constructor(options: KeyRotationOptions) {
    this.#options = options;
  }

  forget(namespace: string, name: string): void {
    this.#given.delete(`${namespace}/${name}`);
  }

  /** Throws `AgentError` when the agent could not be told: it is tried again with the next look. */
  async look(conversation: CachedConversation, state: AgentConversation, endpoint: AgentEndpoint, signal: AbortSignal): Promise<void> {
    const { agent, configurations } = this.#options;
    const { namespace, name, uid } = conversation.metadata;
    const { executionStatus, executionDetail } = conversation.status ?? {};
    if (executionStatus !== 'error' || executionDetail?.startsWith(keyRefused) !== true) return;
    const llm = await configurations.llmWithKey(conversation);
    if (llm === undefined) return;
    // One that somebody has set to another model has another key; ours is none of its business.
    if (state.llm?.model !== llm.model || state.llm.baseUrl !== llm.baseUrl) return;
    const given = `${uid} ${createHash('sha256').update(llm.apiKey).digest('base64')}`;
    if (this.#given.get(`${namespace}/${name}`) === given) return;
    try {
      await agent.useLlm(endpoint, state.id, llm, { signal });
    } catch (error) {
      // An agent that does not know how; it will not learn it.
      if (!(error instanceof AgentError && (error.code === 'not-found' || error.code === 'refused'))) throw error;
    }
    this.#given.set(`${namespace}/${name}`, given);
  }
}
