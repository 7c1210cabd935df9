import type { Stores } from '../caches.ts';
import type { AgentLlm, NewAgentConversation } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import { plainText } from '../../resources/plain-text.ts';
import { withoutSecrets, type NamedSecret } from '../../agent/redaction.ts';
import { isModelAllowed } from '../../resources/agent-settings.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { OwnerSettingsReader } from './owner-settings.ts';
import { StartErrorCode, StartFailure } from './start/stage.ts';

/** Maximum length of a text of the agent that users see, in characters. */
const maxDetailLength = 2048;

/** Settings of the agent for a conversation. `llm` contains a secret, the model's API key. */
export type AgentConfiguration = Pick<
  NewAgentConversation,
  'llm' | 'tools' | 'confirmationPolicy' | 'maxIterations'
>;

type Configured = { readonly metadata: Pick<CachedConversation['metadata'], 'namespace'> } & {
  readonly spec: Pick<CachedConversation['spec'], 'owner' | 'templateName' | 'agent'>;
};

export interface AgentConfigurationsOptions {
  readonly credentials: AgentCredentials;
  readonly stores: Pick<Stores, 'templates'>;
  readonly ownerSettings: Pick<OwnerSettingsReader, 'secretsOf'>;
}

/**
 * Determines the settings of agents: the choices of the conversation, else those of its template.
 * Only the template names the URL of the model and the credential. A URL that the conversation
 * names would receive the API key of the platform.
 */
export class AgentConfigurations {
  readonly #options: AgentConfigurationsOptions;

  constructor(options: AgentConfigurationsOptions) {
    this.#options = options;
  }

  /** Throws `StartFailure` for a model that is not allowed, and for a missing credential. */
  async of(conversation: Configured): Promise<AgentConfiguration> {
    const { spec } = conversation;
    const chosen = spec.agent ?? {};
    const given = this.#given(conversation);
    if (chosen.model !== undefined && !isModelAllowed(chosen.model, given)) {
      throw new StartFailure(
        StartErrorCode.modelNotAllowed,
        `The sandbox template ${spec.templateName} does not allow the model ${chosen.model}.`,
      );
    }
    const apiKey = await this.#key(conversation);
    if (given.credential !== undefined && apiKey === undefined) {
      throw new StartFailure(
        StartErrorCode.modelCredentialMissing,
        `The model credential ${given.credential}, which the sandbox template ${spec.templateName} names, is missing or can't be used.`,
      );
    }
    return {
      llm: llmOf(chosen.model ?? given.model, given.baseUrl, apiKey),
      tools: chosen.tools ?? given.tools,
      confirmationPolicy: chosen.confirmationPolicy ?? given.confirmationPolicy,
      maxIterations: given.maxIterations,
    };
  }

  /** The model with its current API key; undefined without a key, or for a forbidden model. */
  async llmWithKey(
    conversation: Configured,
  ): Promise<(AgentLlm & { readonly apiKey: string }) | undefined> {
    const given = this.#given(conversation);
    const chosen = conversation.spec.agent?.model;
    if (chosen !== undefined && !isModelAllowed(chosen, given)) return undefined;
    const apiKey = await this.#key(conversation);
    const llm = llmOf(chosen ?? given.model, given.baseUrl, apiKey);
    return llm === undefined || apiKey === undefined ? undefined : { ...llm, apiKey };
  }

  /** Removes the API key from a text of the agent: model APIs repeat a key that they reject. */
  async shown(
    text: string,
    conversation: Configured,
    maxLength = maxDetailLength,
  ): Promise<string> {
    const key = await this.#key(conversation);
    return plainText(key === undefined ? text : withoutSecrets(text, [key]), maxLength);
  }

  /**
   * The secrets that texts of the agent must not show: the API key, and the secrets of the owner.
   */
  async secretsOf(
    conversation: Pick<CachedConversation, 'metadata' | 'spec'>,
    signal: AbortSignal,
  ): Promise<readonly NamedSecret[]> {
    const value = await this.#key(conversation);
    return [
      ...(value === undefined ? [] : [{ name: 'key of the model', value }]),
      ...(await this.#options.ownerSettings.secretsOf(conversation, signal)),
    ];
  }

  #given({ metadata, spec }: Configured): Partial<SandboxTemplate['spec']['agent']> {
    return (
      this.#options.stores.templates.get(metadata.namespace, spec.templateName)?.spec.agent ?? {}
    );
  }

  async #key(conversation: Configured): Promise<string | undefined> {
    const { credential } = this.#given(conversation);
    return credential === undefined
      ? undefined
      : this.#options.credentials.of(conversation.spec.owner, credential);
  }
}

const llmOf = (
  model: string | undefined,
  baseUrl: string | undefined,
  apiKey: string | undefined,
): AgentLlm | undefined =>
  model === undefined
    ? undefined
    : {
        model,
        ...(baseUrl === undefined ? {} : { baseUrl }),
        ...(apiKey === undefined ? {} : { apiKey }),
      };
