import type { AgentCredentials } from '../../agent/credentials.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

export interface ArchiveSecretsOptions {
  readonly keys: SandboxKeys;
  readonly credentials: AgentCredentials;
}

/**
 * The secrets that the operator knows and a process in the sandbox may print: the keys and tokens
 * of the sandbox, and the API key of the model.
 */
export async function archiveSecrets(
  { keys, credentials }: ArchiveSecretsOptions,
  { spec }: Pick<CachedConversation, 'spec'>,
  { metadata: { uid }, status }: Sandbox,
  template: SandboxTemplate | undefined,
): Promise<readonly string[]> {
  const keyId = status?.masterKeyId;
  const credential = template?.spec.agent.credential;
  const apiKey =
    credential === undefined ? undefined : await credentials.of(spec.owner, credential);
  return [
    keys.sessionKey(uid, keyId),
    keys.secretKey(uid, keyId),
    keys.bootstrapKey(uid, keyId),
    keys.gitToken(uid, keyId),
    keys.toolsToken(uid, keyId),
    keys.secretsToken(uid, keyId),
    ...(apiKey === undefined ? [] : [apiKey]),
  ];
}
