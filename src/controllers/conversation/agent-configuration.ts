import type { AgentLlm, NewAgentConversation } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import { withoutSecrets } from '../../agent/redaction.ts';
import type { Conversation } from '../../resources/conversation.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { StartErrorCode, StartFailure } from './start.ts';

/** What a conversation's agent is told of how it should work. Holds a secret: the model's API key. */
export type AgentConfiguration = Pick<NewAgentConversation, 'llm' | 'tools' | 'confirmationPolicy' | 'maxIterations'>;

export interface AgentConfigurationsOptions {
  readonly credentials: AgentCredentials;
}

/**
 * How conversations' agents are to work: what the conversation chooses, else what its template says. Where the model is served, and
 * with which key, is the template's matter alone: another address would carry the platform's key away.
 */
export class AgentConfigurations {
  readonly #credentials: AgentCredentials;

  constructor({ credentials }: AgentConfigurationsOptions) {
    this.#credentials = credentials;
  }

  /** Throws a `StartFailure` when a credential is missing that the template names. */
  async of({ spec }: Conversation, template: SandboxTemplate | undefined): Promise<AgentConfiguration> {
    const chosen = spec.agent ?? {};
    const given: Partial<SandboxTemplate['spec']['agent']> = template?.spec.agent ?? {};
    const model = chosen.model ?? given.model;
    const apiKey = await this.#key(spec.owner, given.credential);
    if (given.credential !== undefined && apiKey === undefined) {
      throw new StartFailure(
        StartErrorCode.modelCredentialMissing,
        `The model credential ${given.credential}, which the sandbox template ${spec.templateName} names, is missing or can't be used.`,
      );
    }
    const llm: AgentLlm | undefined =
      model === undefined
        ? undefined
        : { model, ...(given.baseUrl === undefined ? {} : { baseUrl: given.baseUrl }), ...(apiKey === undefined ? {} : { apiKey }) };
    return {
      llm,
      tools: chosen.tools ?? given.tools,
      confirmationPolicy: chosen.confirmationPolicy ?? given.confirmationPolicy,
      maxIterations: given.maxIterations,
    };
  }

  /** A text of the agent's as it may be stored and shown. */
  async shown(text: string, { spec }: Conversation, template: SandboxTemplate | undefined): Promise<string> {
    const key = await this.#key(spec.owner, template?.spec.agent.credential);
    return key === undefined ? text : withoutSecrets(text, [key]);
  }

  async #key(owner: string, credential: string | undefined): Promise<string | undefined> {
    return credential === undefined ? undefined : this.#credentials.of(owner, credential);
  }
}
