import type { SandboxKeys } from '../../src/agent/keys.ts';
import { hashKey } from '../../src/gateway/auth/key.ts';
import type { ApiKey } from '../../src/resources/api-key.ts';
import type { KubeObject } from '@conversation-operator/kube/object';

/** The session key of a sandbox, never rotated, that the holder of an API key is shown. */
export function sessionKeyFor(
  { metadata }: Pick<KubeObject, 'metadata'>,
  {
    apiKey,
    apiKeys,
    keys,
  }: { readonly apiKey: string; readonly apiKeys: readonly ApiKey[]; readonly keys: SandboxKeys },
): string {
  const known = apiKeys.find(({ spec }) => spec.sha256 === hashKey(apiKey));
  if (known === undefined) throw new Error('no ApiKey has this hash');
  return keys.clientKey(metadata.uid, { apiKeyUid: known.metadata.uid, generation: 0 });
}
