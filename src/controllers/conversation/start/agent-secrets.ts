import type { AgentSecret } from '../../../agent/agent.ts';
import type { SandboxKeys } from '../../../agent/keys.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import type { OwnerSettingsSpec } from '../../../resources/owner-settings.ts';
import type { GitAccessOptions } from '../git/git-access.ts';
import type { StartScope } from './stage.ts';

export interface AgentSecretsOptions extends Pick<GitAccessOptions, 'agentSide'> {
  readonly keys: Pick<SandboxKeys, 'secretsToken'>;
}

/**
 * The secrets of a conversation and of its owner, each as the address at which the agent reads the
 * value when it uses the secret. None where sandboxes do not reach the gateway.
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
  const token = keys.secretsToken(sandbox.metadata.uid, sandbox.status?.masterKeyId);
  const folder = `${base}/secrets/${encodeURIComponent(sandbox.metadata.name)}/${conversationIdOf(stored)}`;
  return Array.from(names, (name) => ({
    name,
    url: `${folder}/${encodeURIComponent(name)}`,
    headers: { Authorization: `Bearer ${token}` },
  }));
}
