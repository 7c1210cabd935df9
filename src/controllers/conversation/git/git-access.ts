import { readFileSync } from 'node:fs';
import type { Store } from '@conversation-operator/kube/store';
import type { SandboxKeys } from '../../../agent/keys.ts';
import type { SandboxTemplate } from '../../../resources/sandbox-template.ts';
import { gitFolder } from '../../sandbox/pod.ts';
import { shellCommand } from '../../../agent/shell-quote.ts';
import type { Scope } from '../scope.ts';
import type { ConversationSpec } from '../../../resources/conversation.ts';
import type { AgentKind } from '../../../resources/agent-settings.ts';
import {
  type GitSettings,
  gitPolicyOf,
  type GitPolicy,
  type PushPolicy,
} from '../../../resources/git-settings.ts';
import type { OwnerSettingsSpec } from '../../../resources/owner-settings.ts';
import { keySeedOf } from '../../../resources/sandbox.ts';
import type { AgentMcpServer } from '../../../agent/agent.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import { opensPullRequests } from '../../../resources/git-providers.ts';

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

/** Name of the gateway's MCP server, which agents show beside the names of its tools. */
const serverName = 'conversation-operator';

/** The gateway's MCP server for an agent; undefined if the agent may open no pull requests. */
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
  const token = keys.toolsToken(keySeedOf(sandbox), status?.masterKeyId);
  return {
    name: serverName,
    url: `${agentSide.url.replace(/\/+$/, '')}/mcp/${encodeURIComponent(metadata.name)}/${conversationIdOf(stored)}`,
    transport: 'http',
    headers: { Authorization: `Bearer ${token}` },
  };
}

interface AgentGit {
  readonly notice: string | undefined;
  readonly mcpServers: readonly AgentMcpServer[];
}

/** Notice and tools for git; empty unless the gateway serves a repository to the agent. */
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

export interface CommitIdentity {
  readonly name: string;
  readonly email: string;
  /** `NAME <EMAIL>` of the agent. Absent: commits name no co-author. */
  readonly coAuthor?: string;
}

/** Name and email address of the OpenHands agent in commits. */
const openHands = 'openhands <openhands@all-hands.dev>';

/** The author that the owner has chosen for commits; undefined if the agent decides. Pure. */
export function commitIdentityOf(
  { git: chosen }: Pick<OwnerSettingsSpec, 'git'>,
  { git, kind }: { readonly git: Partial<GitSettings> | undefined; readonly kind: AgentKind },
): CommitIdentity | undefined {
  if (chosen === undefined) return undefined;
  const { name, email } = chosen;
  const coAuthor = git?.coAuthor ?? (kind === 'openhands' ? openHands : undefined);
  return chosen.coAuthor === false || coAuthor === undefined
    ? { name, email }
    : { name, email, coAuthor };
}

const preCommitHook = readFileSync(new URL('./pre-commit.sh', import.meta.url), 'utf8');
const coAuthorHook = readFileSync(new URL('./prepare-commit-msg.sh', import.meta.url), 'utf8');

/** Git hooks: one runs the repository's `.openhands/pre-commit.sh`, one adds the co-author. */
export const commitHooks = [preCommitHook, coAuthorHook] as const;

/**
 * Base URLs by provider, for example `{ github: 'https://github.com' }`. The first is the default
 * of repositories without a provider.
 */
export type GitHosts = Readonly<Record<string, string>>;

export type Repository = NonNullable<ConversationSpec['repository']>;

/** Removes the credential, which only the gateway may use, from a base URL. */
function withoutUser(base: string): string {
  const url = new URL(base);
  if (url.username === '' && url.password === '') return base;
  url.username = '';
  url.password = '';
  return url.href;
}

/** Provider of the repository, a key of `hosts`. Default: the first key. */
export const providerOf = (repository: Repository, hosts: GitHosts): string | undefined =>
  repository.provider ?? Object.keys(hosts)[0];

/**
 * Base URL of a provider's host, without a credential and with a slash at its end; undefined for a
 * provider that is not configured.
 */
export function hostUrlOf(provider: string, hosts: GitHosts): string | undefined {
  const base = Object.hasOwn(hosts, provider) ? hosts[provider] : undefined;
  return base === undefined ? undefined : `${withoutUser(base).replace(/\/+$/, '')}/`;
}

export interface GitAccessOptions {
  readonly keys: Pick<SandboxKeys, 'gitToken'>;
  readonly stores: { readonly templates: Pick<Store<SandboxTemplate>, 'get'> };
  readonly gitHosts: GitHosts;
  /** URL of the gateway for sandboxes of `namespace`. Absent: they can not reach the gateway. */
  readonly agentSide?: { readonly url: string; readonly namespace: string } | undefined;
}

interface ServedRepository {
  readonly provider: string;
  /** Path on the host: owner/name. */
  readonly name: string;
}

/**
 * Access of a sandbox to git hosts through the gateway, which adds the credentials of the owner.
 * The access lasts as long as the sandbox.
 */
export interface GitAccess {
  /** URL at the gateway for git requests of the sandbox, with a slash at its end. */
  readonly gatewayUrl: string;
  readonly token: string;
  /** Undefined for a start without a repository, and for a host that does not speak HTTP. */
  readonly repository: ServedRepository | undefined;
  /** Further repositories of the same host that the template allows to read. */
  readonly readable: readonly string[];
}

/** Returns the access for a start; undefined if the sandbox can not reach the gateway. */
export function gitAccessOf(
  { stored, sandbox }: Pick<Scope, 'stored' | 'sandbox'>,
  { agentSide, gitHosts, keys, stores }: GitAccessOptions,
): GitAccess | undefined {
  if (agentSide?.namespace !== stored.metadata.namespace || sandbox === undefined) return undefined;
  const { metadata, status } = sandbox;
  const template = stores.templates.get(stored.metadata.namespace, stored.spec.templateName);
  const base = agentSide.url.replace(/\/+$/, '');
  return {
    gatewayUrl: `${base}/git/${encodeURIComponent(metadata.name)}/`,
    token: keys.gitToken(keySeedOf(sandbox), status?.masterKeyId),
    repository: servedRepository(stored.spec.repository, gitHosts),
    readable: template?.spec.git?.readable ?? [],
  };
}

function servedRepository(
  repository: Repository | undefined,
  hosts: GitHosts,
): ServedRepository | undefined {
  const provider = repository && providerOf(repository, hosts);
  if (repository === undefined || provider === undefined) return undefined;
  return hostUrlOf(provider, hosts)?.startsWith('http') === true
    ? { provider, name: repository.name }
    : undefined;
}

/** URL at the gateway for a git provider, with a slash at its end. */
const providerUrl = ({ gatewayUrl }: Pick<GitAccess, 'gatewayUrl'>, provider: string): string =>
  `${gatewayUrl}${encodeURIComponent(provider)}/`;

export const repositoryUrlAt = (
  access: Pick<GitAccess, 'gatewayUrl'>,
  { provider, name }: ServedRepository,
): string =>
  `${providerUrl(access, provider)}${`${name}.git`.split('/').map(encodeURIComponent).join('/')}`;

/** The hosts that speak HTTP, with their base URLs. */
const httpHosts = (hosts: GitHosts): readonly (readonly [provider: string, url: string])[] =>
  Object.keys(hosts).flatMap((provider) => {
    const url = hostUrlOf(provider, hosts);
    return url?.startsWith('http') === true ? [[provider, url]] : [];
  });

/** Whether git's configuration can contain the URL in quotes without escapes. */
const isPlain = (url: string): boolean => !/[\s\p{Cc}"\\]/u.test(url);

/** Temporary file for the git token, below the agent's working directory (`gitTokenScript`). */
export const newTokenFile = `${gitFolder}/token.new`;

const accessProgram = readFileSync(new URL('./git-access.sh', import.meta.url), 'utf8');
const credentialProgram = readFileSync(new URL('./git-credential.sh', import.meta.url), 'utf8');

/** A script that writes git's configuration for the shells of the sandbox, without a secret. */
export const gitAccessScript = (
  { gatewayUrl, repository, readable }: Pick<GitAccess, 'gatewayUrl' | 'repository' | 'readable'>,
  hosts: GitHosts,
): string =>
  shellCommand(
    accessProgram,
    credentialProgram,
    gatewayUrl,
    encodeURIComponent(repository?.provider ?? ''),
    repository?.name ?? '',
    readable.map((name) => ` ${name} `).join(''),
    ...httpHosts(hosts).flatMap(([provider, url]) =>
      isPlain(url) ? [encodeURIComponent(provider), url] : [],
    ),
  );

/** Moves the token of `newTokenFile` to its final path; idempotent. */
export const gitTokenScript = readFileSync(new URL('./git-token.sh', import.meta.url), 'utf8');

export function withoutGateway(
  output: string,
  access: Pick<GitAccess, 'gatewayUrl'>,
  gitHosts: GitHosts,
): string {
  const { hostname, host } = new URL(access.gatewayUrl);
  const hosts = httpHosts(gitHosts);
  const shown = hosts.reduce(
    (text, [provider, url]) => text.replaceAll(providerUrl(access, provider), url),
    output,
  );
  return hosts.some(([, url]) => new URL(url).hostname === hostname)
    ? shown
    : shown.replaceAll(host, 'the gateway').replaceAll(hostname, 'the gateway');
}
