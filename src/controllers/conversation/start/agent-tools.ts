import type { AgentMcpServer } from '../../../agent/agent.ts';
import type { SandboxKeys } from '../../../agent/keys.ts';
import type { GitPolicy } from '../../../resources/git-settings.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import { opensPullRequests } from '../../../resources/git-providers.ts';
import { gitAccessOf, type GitAccessOptions } from './git-access.ts';
import type { StartScope } from './stage.ts';

export interface AgentToolsOptions extends Omit<GitAccessOptions, 'keys'> {
  readonly keys: Pick<SandboxKeys, 'gitToken' | 'toolsToken'>;
}

/** Name of the server of the gateway, which agents show beside the names of its tools. */
const serverName = 'conversation-operator';

/**
 * The server with the tools of the gateway for the agent of a conversation; undefined where the
 * agent may open no pull request.
 */
export function agentToolsOf(
  { stored, sandbox }: Pick<StartScope, 'stored' | 'sandbox'>,
  { push, pullRequests }: GitPolicy,
  options: AgentToolsOptions,
): AgentMcpServer | undefined {
  const { agentSide, keys } = options;
  const repository = gitAccessOf({ stored, sandbox }, options)?.repository;
  if (agentSide === undefined || sandbox === undefined) return undefined;
  if (!opensPullRequests(repository?.provider) || !push.enabled || !pullRequests.enabled)
    return undefined;
  const { metadata, status } = sandbox;
  const token = keys.toolsToken(metadata.uid, status?.masterKeyId);
  return {
    name: serverName,
    url: `${agentSide.url.replace(/\/+$/, '')}/mcp/${encodeURIComponent(metadata.name)}/${conversationIdOf(stored)}`,
    transport: 'http',
    headers: { Authorization: `Bearer ${token}` },
  };
}
