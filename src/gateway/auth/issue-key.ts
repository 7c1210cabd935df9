import { compact } from '@conversation-operator/base/compact';
import { randomBytes } from 'node:crypto';
import type { KubeClient } from '@conversation-operator/kube/client';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../resources/api-key.ts';
import { apiVersion } from '../../resources/group.ts';
import { generateKey, hashKey, type RandomBytes } from './key.ts';

export interface IssueKeyOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly owner: string;
  readonly role?: ApiKeySpec['role'];
  readonly description?: string | undefined;
  /** Time of the expiry in RFC 3339; a key without it never expires. */
  readonly expiresAt?: string | undefined;
  /** The key that makes this one; this one ends with it. Absent where no key makes it. */
  readonly issuedBy?: ApiKeySpec['issuedBy'];
  /** Use of the key in a sign-in; absent: the key is for requests. */
  readonly signIn?: ApiKeySpec['signIn'];
  readonly random?: RandomBytes;
}

export interface IssuedKey {
  /** The key in clear. Only its hash is stored, so the caller can read it only here. */
  readonly key: string;
  readonly resource: ApiKey;
}

/**
 * Creates an ApiKey resource. The key works on each gateway as soon as its cache has seen the
 * resource.
 */
export async function issueKey(options: IssueKeyOptions): Promise<IssuedKey> {
  const { client, namespace, owner, role = 'user', issuedBy, random = randomBytes } = options;
  const key = generateKey(random);
  const resource = await client.create(apiKeys, {
    apiVersion,
    kind: apiKeys.kind,
    metadata: {
      namespace,
      name: `key-${random(6).toString('hex')}`,
      // Kubernetes deletes the key with the key that has made it.
      ...(issuedBy === undefined
        ? {}
        : { ownerReferences: [{ apiVersion, kind: apiKeys.kind, ...issuedBy }] }),
    },
    spec: compact({
      owner,
      role,
      sha256: hashKey(key),
      description: options.description,
      expirationTime: options.expiresAt,
      issuedBy,
      signIn: options.signIn,
    }),
  });
  return { key, resource };
}
