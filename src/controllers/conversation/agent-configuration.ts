import type { AgentLlm, NewAgentConversation } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import { plainText } from '../../agent/plain-text.ts';
import { withoutSecrets } from '../../agent/redaction.ts';
import type { Store } from '@conversation-operator/kube/store';
import { isModelAllowed } from '../../resources/allowed-models.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { StartErrorCode, StartFailure } from './start/start-status.ts';

/** As much as a status has room for. */
const longestDetail = 2048;

/** What a conversation's agent is told of how it should work. Holds a secret: the model's API key. */
export type AgentConfiguration = Pick<NewAgentConversation, 'llm' | 'tools' | 'confirmationPolicy' | 'maxIterations'>;

/** As much of a conversation as says how its agent is to work. */
type Configured = { readonly metadata: Pick<CachedConversation['metadata'], 'namespace'> } & {
  readonly spec: Pick<CachedConversation['spec'], 'owner' | 'templateName' | 'agent'>;
};

export interface AgentConfigurationsOptions {
  readonly credentials: AgentCredentials;
  readonly stores: { readonly templates: Store<SandboxTemplate> };
}

/**
 * How conversations' agents are to work: what the conversation chooses, else what its template says. Where the model is served, and
 * with which key, is the template's matter alone: another address would carry the platform's key away.
 */
export class AgentConfigurations {
  readonly #options: AgentConfigurationsOptions;

  constructor(options: AgentConfigurationsOptions) {
    this.#options = options;
  }

  /** Throws a `StartFailure` for a model that the template does not allow, and when a credential is missing that it names. */
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

  /** The model and the key that there is for it now; undefined where there is none, or the template does not allow the model any more. */
  async llmWithKey(conversation: Configured): Promise<(AgentLlm & { readonly apiKey: string }) | undefined> {
    const given = this.#given(conversation);
    const chosen = conversation.spec.agent?.model;
    if (chosen !== undefined && !isModelAllowed(chosen, given)) return undefined;
    const apiKey = await this.#key(conversation);
    const llm = llmOf(chosen ?? given.model, given.baseUrl, apiKey);
    return llm === undefined || apiKey === undefined ? undefined : { ...llm, apiKey };
  }

  /** A text of the agent's as it may be stored and shown: model hosts like to repeat the key that they refuse. */
  async shown(text: string, conversation: Configured): Promise<string> {
    const key = await this.#key(conversation);
    return plainText(key === undefined ? text : withoutSecrets(text, [key]), longestDetail);
  }

  #given({ metadata, spec }: Configured): Partial<SandboxTemplate['spec']['agent']> {
    return this.#options.stores.templates.get(metadata.namespace, spec.templateName)?.spec.agent ?? {};
  }

  async #key(conversation: Configured): Promise<string | undefined> {
    const { credential } = this.#given(conversation);
    return credential === undefined ? undefined : this.#options.credentials.of(conversation.spec.owner, credential);
  }
}

const llmOf = (model: string | undefined, baseUrl: string | undefined, apiKey: string | undefined): AgentLlm | undefined =>
  model === undefined ? undefined : { model, ...(baseUrl === undefined ? {} : { baseUrl }), ...(apiKey === undefined ? {} : { apiKey }) };
