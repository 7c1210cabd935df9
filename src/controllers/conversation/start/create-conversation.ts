import type { Stores } from '../../caches.ts';
import type {
  AgentClient,
  AgentConversation,
  AgentEndpoint,
  AgentMcpServer,
  AgentSecret,
} from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { isNewerVersion } from '@conversation-operator/kube/object';
import type { Store } from '@conversation-operator/kube/store';
import type { Conversation } from '../../../resources/conversation.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import { keySeedOf, type Sandbox } from '../../../resources/sandbox.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';
import { withFirstMessage } from '../messages/decide.ts';
import type { RecentAnswers } from '../recent-answers.ts';
import { agentOf, type AwaitAgentOptions } from './await-agent.ts';
import type { OwnerSettingsReader } from '../owner-settings.ts';
import { agentGitOf, type AgentGitOptions, type GitAccessOptions } from '../git/git-access.ts';
import { type AgentStage, type StartScope, StartErrorCode, StartFailure } from './stage.ts';
import { withTransition, withWorkingDir } from './start-status.ts';
import type { SandboxKeys } from '../../../agent/keys.ts';
import type { OwnerSettingsSpec } from '../../../resources/owner-settings.ts';

export interface CreateConversationOptions extends AwaitAgentOptions, AgentGitOptions {
  readonly keys: SandboxKeys;
  readonly ownerSettings: Pick<OwnerSettingsReader, 'of' | 'mcpServersOf'>;
  readonly stores: Pick<Stores, 'sandboxes' | 'templates'>;
  readonly agent: AgentClient;
  readonly answers: Pick<RecentAnswers, 'conversation'>;
  readonly configurations: AgentConfigurations;
  readonly clock: Clock;
}

/** Delay before the first poll of the agent. */
const firstPollMs = 200;
/** Delay before another attempt when a deleted conversation is still in the cache. */
const retryMs = 1_000;

/** Creates the conversation at the agent with its first message, exactly once; idempotent. */
export const createConversation =
  (options: CreateConversationOptions): AgentStage =>
  async (scope) => {
    const { stored, status, workingDir, signal } = scope;
    if (workingDir === undefined) throw new Error('the workspace is not prepared');
    const conversation = await options.answers.conversation(stored, signal);
    if (conversation === undefined) return { status, wait: { afterMs: retryMs } };
    const sandbox = currentSandbox(scope, options.stores.sandboxes);
    const agent = agentOf({ stored, status, sandbox }, options);
    if (agent.endpoint === undefined || sandbox === undefined) return { sandbox, ...agent };
    const settings = await options.ownerSettings.of(stored, signal);
    const git = agentGitOf({ stored, sandbox }, options);
    const part = {
      notice: git.notice,
      // The gateway's own server comes last, so that a server of the owner does not replace it.
      mcpServers: [...options.ownerSettings.mcpServersOf(settings), ...git.mcpServers],
      secrets: agentSecretsOf({ stored, sandbox }, settings, options),
    };
    const { created, status: state } = await create(
      { conversation, sandbox, endpoint: agent.endpoint, workingDir, ...part },
      options,
      signal,
    );
    const now = isoTime(options.clock);
    const agentEpoch = sandbox.status?.agentEpoch ?? 0;
    const started = withFirstMessage(agent.status, {
      message: stored.spec.initialMessage,
      state,
      created,
      agentEpoch,
      now,
    });
    return {
      sandbox,
      status: withTransition(withWorkingDir(started, workingDir), { status: 'READY', time: now }),
      wait: { afterMs: firstPollMs },
    };
  };

/** The cached sandbox if it is newer, because its container may have changed in earlier stages. */
function currentSandbox(
  { stored, sandbox }: StartScope,
  store: Store<Sandbox>,
): Sandbox | undefined {
  if (sandbox === undefined) return undefined;
  const cached = store.get(stored.metadata.namespace, sandbox.metadata.name);
  return cached?.metadata.uid === sandbox.metadata.uid && isNewerVersion(cached, sandbox)
    ? cached
    : sandbox;
}

interface NewConversation {
  readonly conversation: Conversation;
  readonly sandbox: Sandbox;
  readonly endpoint: AgentEndpoint;
  readonly workingDir: string;
  readonly notice: string | undefined;
  readonly mcpServers: readonly AgentMcpServer[];
  readonly secrets: readonly AgentSecret[];
}

const suffixOf = (...parts: readonly (string | undefined)[]): string | undefined =>
  parts.filter((part) => part !== undefined).join('\n\n') || undefined;

async function create(
  { conversation, sandbox, endpoint, workingDir, notice, mcpServers, secrets }: NewConversation,
  { agent, configurations }: Pick<CreateConversationOptions, 'agent' | 'configurations'>,
  signal: AbortSignal,
): Promise<{ readonly created: boolean; readonly status: AgentConversation }> {
  const { spec } = conversation;
  try {
    const hookConfig = await agent.hookConfig(endpoint, workingDir, { signal });
    return await agent.createConversation(
      endpoint,
      {
        id: conversationIdOf(conversation),
        uid: conversation.metadata.uid,
        workingDir,
        message: spec.initialMessage,
        ...(await configurations.of(conversation, sandbox)),
        systemMessageSuffix: suffixOf(notice, spec.agent?.systemMessageSuffix),
        hookConfig,
        mcpServers,
        secrets,
      },
      { signal },
    );
  } catch (error) {
    if (error instanceof AgentError && error.code === 'unconfigured') {
      const message = `The agent needs a model: the request or the sandbox template ${spec.templateName} has to name one.`;
      throw new StartFailure(StartErrorCode.modelNotConfigured, message, { cause: error });
    }
    // An agent that rejects the conversation will reject it again; other errors may be transient.
    if (error instanceof AgentError && error.code === 'refused') {
      throw new StartFailure(
        StartErrorCode.agentRefused,
        `The agent refused the conversation: ${error.message}`,
        { cause: error },
      );
    }
    throw error;
  }
}

export interface AgentSecretsOptions {
  readonly agentSide?: GitAccessOptions['agentSide'];
  readonly keys: Pick<SandboxKeys, 'secretsToken'>;
}

/**
 * The secrets of a conversation and of its owner, each with the URL at which the agent reads the
 * value when it uses the secret. Empty if the sandbox can not reach the gateway.
 */
export function agentSecretsOf(
  { stored, sandbox }: Pick<StartScope, 'stored' | 'sandbox'>,
  { secrets = [] }: Pick<OwnerSettingsSpec, 'secrets'>,
  { agentSide, keys }: AgentSecretsOptions,
): readonly AgentSecret[] {
  const { metadata, spec } = stored;
  const names = new Set([...secrets, ...(spec.secrets ?? [])].map(({ name }) => name));
  if (agentSide?.namespace !== metadata.namespace || sandbox === undefined || names.size === 0)
    return [];
  const base = agentSide.url.replace(/\/+$/, '');
  const token = keys.secretsToken(keySeedOf(sandbox), sandbox.status?.masterKeyId);
  const folder = `${base}/secrets/${encodeURIComponent(sandbox.metadata.name)}/${conversationIdOf(stored)}`;
  return Array.from(names, (name) => ({
    name,
    url: `${folder}/${encodeURIComponent(name)}`,
    headers: { Authorization: `Bearer ${token}` },
  }));
}
