import type { AgentMcpServer } from '../../../agent/agent.ts';
import type { SandboxKeys } from '../../../agent/keys.ts';
import { gitPolicyOf, type GitPolicy, type PushPolicy } from '../../../resources/git-settings.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import { opensPullRequests } from '../../../resources/git-providers.ts';
import { gitAccessOf, type GitAccessOptions } from './git-access.ts';
import type { Scope } from '../scope.ts';

/** States what an agent may push, so that the agent does not try in vain. Pure. */
export function pushNotice(
  repository: string,
  { enabled, branches }: PushPolicy,
  { opensPullRequests }: { readonly opensPullRequests: boolean },
): string {
  if (!enabled || branches.length === 0)
    return `Do not push to ${repository}: the git host is closed to pushes from here.`;
  const names = branches.map((pattern) => `\`${pattern}\``).join(' or ');
  return `You may push to ${repository} with git, to branches whose names match ${names}: the credential is in place. The default branch, tags, deletions and forced pushes are refused.${opensPullRequests ? ' Your tool create_pull_request, whose name may have a prefix, opens a pull request from a branch that you have pushed.' : ''}`;
}

export interface AgentGitOptions extends GitAccessOptions {
  readonly keys: Pick<SandboxKeys, 'gitToken' | 'toolsToken'>;
}

/** Name of the server of the gateway, which agents show beside the names of its tools. */
const serverName = 'conversation-operator';

/**
 * The server with the tools of the gateway for the agent of a conversation; undefined where the
 * agent may open no pull request.
 */
function agentToolsOf(
  { stored, sandbox }: Pick<Scope, 'stored' | 'sandbox'>,
  { push, pullRequests }: GitPolicy,
  options: AgentGitOptions,
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

/** The parts of a new conversation that depend on git. */
export interface AgentGit {
  /** A notice about pushes for the agent. */
  readonly notice: string | undefined;
  readonly mcpServers: readonly AgentMcpServer[];
}

/** Empty where nothing can be pushed from a sandbox. */
export function agentGitOf(
  scope: Pick<Scope, 'stored' | 'sandbox'>,
  options: AgentGitOptions,
): AgentGit {
  const { metadata, spec } = scope.stored;
  if (gitAccessOf(scope, options)?.repository === undefined || spec.repository === undefined)
    return { notice: undefined, mcpServers: [] };
  const repository = spec.repository.name;
  const template = options.stores.templates.get(metadata.namespace, spec.templateName);
  const { owner } = spec;
  const policy = gitPolicyOf(template?.spec.git, { owner, repository });
  const tools = agentToolsOf(scope, policy, options);
  return {
    notice: pushNotice(repository, policy.push, { opensPullRequests: tools !== undefined }),
    mcpServers: tools === undefined ? [] : [tools],
  };
}
