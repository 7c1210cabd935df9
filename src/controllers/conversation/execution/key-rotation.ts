import { createHash } from 'node:crypto';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';

/** Code of the agent's error when the host of the model rejects the API key. */
const authenticationError = 'LLMAuthenticationError';

export interface KeyRotationOptions {
  readonly agent: AgentClient;
  readonly configurations: AgentConfigurations;
}

/**
 * Gives the current API key to a conversation whose model has rejected the previous key, so that
 * the next run has the current key. The keys that were given are in memory only; a new process
 * gives the same key again, which changes nothing.
 */
export class KeyRotation {
  readonly #options: KeyRotationOptions;
  /** UID of the conversation and SHA-256 of the key, by namespace and name. */
  readonly #given = new Map<string, string>();

  constructor(options: KeyRotationOptions) {
    this.#options = options;
  }

  forget(namespace: string, name: string): void {
    this.#given.delete(`${namespace}/${name}`);
  }

  /** Throws `AgentError` when the agent could not be called; the next poll tries again. */
  async rotate(
    conversation: CachedConversation,
    state: AgentConversation,
    endpoint: AgentEndpoint,
    signal: AbortSignal,
  ): Promise<void> {
    const { agent, configurations } = this.#options;
    const { namespace, name, uid } = conversation.metadata;
    const { executionStatus, executionDetail } = conversation.status ?? {};
    if (executionStatus !== 'error' || executionDetail?.startsWith(authenticationError) !== true)
      return;
    const llm = await configurations.llmWithKey(conversation);
    if (llm === undefined) return;
    // A client may have set another model, which has a key of its own.
    if (state.llm?.model !== llm.model || state.llm.baseUrl !== llm.baseUrl) return;
    const given = `${uid} ${createHash('sha256').update(llm.apiKey).digest('base64')}`;
    if (this.#given.get(`${namespace}/${name}`) === given) return;
    try {
      await agent.useLlm(endpoint, state.id, llm, { signal });
    } catch (error) {
      // An agent that does not support the call never will.
      if (!(
        error instanceof AgentError &&
        (error.code === 'not-found' || error.code === 'refused')
      ))
        throw error;
    }
    this.#given.set(`${namespace}/${name}`, given);
  }
}
