import type { Stores } from '../caches.ts';
import type { AgentLlm, NewAgentConversation } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import { plainText } from '../../resources/plain-text.ts';
import { withoutSecrets, type NamedSecret } from '../../agent/redaction.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { isRelayed, modelRelayAccessOf, upstreamOfConversation } from '../../agent/model-relay.ts';
import { isModelAllowed } from '../../resources/agent-settings.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { AgentSide } from '../sandbox/agent-connection.ts';
import type { OwnerSettingsReader } from './owner-settings.ts';
import { StartErrorCode, StartFailure } from './start/stage.ts';

/** Maximum length of a text of the agent that users see, in characters. */
const maxDetailLength = 2048;

/**
 * Settings of the agent for a conversation. `llm` contains a secret: the token of the relay for
 * models, or the model's API key.
 */
export type AgentConfiguration = Pick<
  NewAgentConversation,
  'llm' | 'tools' | 'confirmationPolicy' | 'maxIterations'
>;

type Configured = Pick<CachedConversation, 'metadata'> & {
  readonly spec: Pick<CachedConversation['spec'], 'owner' | 'templateName' | 'agent'>;
};

/** The sandbox of the conversation, whose keys give the token of the relay. */
type Place = Pick<Sandbox, 'metadata' | 'spec' | 'status'>;

export interface AgentConfigurationsOptions {
  readonly credentials: AgentCredentials;
  readonly keys: Pick<SandboxKeys, 'modelsToken'>;
  readonly stores: Pick<Stores, 'templates'>;
  readonly ownerSettings: Pick<OwnerSettingsReader, 'secretsOf'>;
  /** Absent: no sandbox reaches the relay for models. */
  readonly agentSide?: AgentSide | undefined;
}

/**
 * Determines the settings of agents: the choices of the conversation, else those of its template.
 * Only the template names the URL of the model and the credential. A URL that the conversation
 * names would receive the API key of the platform.
 *
 * An agent that can reach the gateway gets the address of the gateway's relay for models, and a
 * token for it, unless the template says `models.relay: false`. The operator reads the key even
 * then: a start without one fails at once, and a model's API may repeat the key in an error.
 */
export class AgentConfigurations {
  readonly #options: AgentConfigurationsOptions;

  constructor(options: AgentConfigurationsOptions) {
    this.#options = options;
  }

  /**
   * Throws `StartFailure` for a model that is not allowed, for a missing credential, and for a
   * model of which the relay can not know the address.
   */
  async check(conversation: Configured, sandbox?: Place): Promise<void> {
    const { spec } = conversation;
    const template = this.#template(conversation);
    const given = this.#given(conversation);
    const chosen = spec.agent?.model;
    if (chosen !== undefined && !isModelAllowed(chosen, given)) {
      throw new StartFailure(
        StartErrorCode.modelNotAllowed,
        `The sandbox template ${spec.templateName} does not allow the model ${chosen}.`,
      );
    }
    if (given.credential !== undefined && (await this.#key(conversation)) === undefined) {
      throw new StartFailure(
        StartErrorCode.modelCredentialMissing,
        `The model credential ${given.credential}, which the sandbox template ${spec.templateName} names, is missing or can't be used.`,
      );
    }
    const model = chosen ?? given.model;
    if (
      model !== undefined &&
      this.#relay(conversation) !== undefined &&
      upstreamOfConversation(model, { sandbox, template }) === undefined
    ) {
      throw new StartFailure(
        StartErrorCode.modelAddressUnknown,
        `The gateway does not know the address of the model ${model}: the sandbox template ${spec.templateName} has to set agent.baseUrl, or models.relay: false.`,
      );
    }
  }

  /** Throws `StartFailure` as `check` does. */
  async of(conversation: Configured, sandbox: Place): Promise<AgentConfiguration> {
    await this.check(conversation, sandbox);
    const chosen = conversation.spec.agent ?? {};
    const given = this.#given(conversation);
    return {
      llm: await this.#llm(conversation, sandbox),
      tools: chosen.tools ?? given.tools,
      confirmationPolicy: chosen.confirmationPolicy ?? given.confirmationPolicy,
      maxIterations: given.maxIterations,
    };
  }

  /**
   * The model with its current API key, or the token of the relay; undefined without a key, or for
   * a forbidden model.
   */
  async llmWithKey(
    conversation: Configured,
    sandbox: Place,
  ): Promise<(AgentLlm & { readonly apiKey: string }) | undefined> {
    const chosen = conversation.spec.agent?.model;
    const given = this.#given(conversation);
    if (chosen !== undefined && !isModelAllowed(chosen, given)) return undefined;
    const llm = await this.#llm(conversation, sandbox);
    return llm?.apiKey === undefined ? undefined : { ...llm, apiKey: llm.apiKey };
  }

  /**
   * Whether an agent uses the model of the conversation at an address that the operator has set:
   * that of the relay, or the template's own, from before the template or the gateway had a relay.
   */
  isOwn(
    { model, baseUrl }: Pick<AgentLlm, 'model' | 'baseUrl'>,
    conversation: Configured,
    sandbox: Place,
  ): boolean {
    const given = this.#given(conversation);
    const relay = this.#address(conversation);
    return (
      model === (conversation.spec.agent?.model ?? given.model) &&
      (baseUrl === given.baseUrl ||
        (relay !== undefined &&
          baseUrl === modelRelayAccessOf({ conversation, sandbox }, relay).baseUrl))
    );
  }

  /**
   * Removes the API key and the token of the relay from a text of the agent: model APIs repeat a
   * key that they reject.
   */
  async shown(
    text: string,
    { conversation, sandbox }: { readonly conversation: Configured; readonly sandbox: Place },
    maxLength = maxDetailLength,
  ): Promise<string> {
    const secrets = await this.#secrets(conversation, sandbox);
    const values = secrets.map(({ value }) => value);
    return plainText(withoutSecrets(text, values), maxLength);
  }

  /**
   * The secrets that texts of the agent must not show: the API key, the token of the relay, and the
   * secrets of the owner.
   */
  async secretsOf(
    conversation: Pick<CachedConversation, 'metadata' | 'spec'>,
    sandbox: Place,
    signal: AbortSignal,
  ): Promise<readonly NamedSecret[]> {
    return [
      ...(await this.#secrets(conversation, sandbox)),
      ...(await this.#options.ownerSettings.secretsOf(conversation, signal)),
    ];
  }

  async #secrets(conversation: Configured, sandbox: Place): Promise<readonly NamedSecret[]> {
    const key = await this.#key(conversation);
    const relay = this.#address(conversation);
    const token = relay && modelRelayAccessOf({ conversation, sandbox }, relay).token;
    return [
      ...(key === undefined ? [] : [{ name: 'key of the model', value: key }]),
      ...(token === undefined ? [] : [{ name: 'token of the model', value: token }]),
    ];
  }

  async #llm(conversation: Configured, sandbox: Place): Promise<AgentLlm | undefined> {
    const { model: preset, baseUrl } = this.#given(conversation);
    const model = conversation.spec.agent?.model ?? preset;
    if (model === undefined) return undefined;
    const relay = this.#relay(conversation);
    if (relay !== undefined) {
      const access = modelRelayAccessOf({ conversation, sandbox }, relay);
      return { model, baseUrl: access.baseUrl, apiKey: access.token };
    }
    const apiKey = await this.#key(conversation);
    return {
      model,
      ...(baseUrl === undefined ? {} : { baseUrl }),
      ...(apiKey === undefined ? {} : { apiKey }),
    };
  }

  /** The relay, if the sandboxes of the namespace reach it. */
  #address({ metadata }: Pick<Configured, 'metadata'>) {
    const { agentSide, keys } = this.#options;
    return agentSide?.namespace === metadata.namespace
      ? { url: agentSide.modelsUrl ?? agentSide.url, keys }
      : undefined;
  }

  /** The relay, if it is what the agent of the conversation has to use. */
  #relay(conversation: Configured) {
    return isRelayed(this.#template(conversation)) ? this.#address(conversation) : undefined;
  }

  #template({ metadata, spec }: Configured): SandboxTemplate | undefined {
    return this.#options.stores.templates.get(metadata.namespace, spec.templateName);
  }

  #given(conversation: Configured): Partial<SandboxTemplate['spec']['agent']> {
    return this.#template(conversation)?.spec.agent ?? {};
  }

  async #key(conversation: Configured): Promise<string | undefined> {
    const { credential } = this.#given(conversation);
    return credential === undefined
      ? undefined
      : this.#options.credentials.of(conversation.spec.owner, credential);
  }
}
