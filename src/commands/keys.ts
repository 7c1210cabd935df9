import { issueKey } from '../gateway/auth/key.ts';
import { isNotFound } from '@conversation-operator/kube/errors';
import { apiKeys, type ApiKeySpec } from '../resources/api-key.ts';
import { withClient, type ClusterOptions } from './process.ts';
import { CommandError, textTable } from './terminal.ts';

export interface CreateKeyOptions extends ClusterOptions {
  readonly owner: string;
  readonly role: ApiKeySpec['role'];
  readonly description?: string;
  readonly scopes?: ApiKeySpec['scopes'];
  readonly notBefore?: string;
  readonly expiresAt?: string;
}

/** The time in RFC 3339. Throws a CommandError that names the option for another text. */
function timeOf(option: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  if (Number.isNaN(time))
    throw new CommandError(`${option}: ${text} is not a time like 2027-01-31T00:00:00Z`);
  return new Date(time).toISOString();
}

/** Prints only the new key on standard output. The key can not be shown again. */
export async function createKey({
  owner,
  role,
  description,
  scopes,
  notBefore,
  expiresAt,
  ...options
}: CreateKeyOptions): Promise<void> {
  const times = {
    notBefore: timeOf('--not-before', notBefore),
    expiresAt: timeOf('--expires-at', expiresAt),
  };
  await withClient(options, async (client, namespace) => {
    const { key, resource } = await issueKey({
      client,
      namespace,
      owner,
      role,
      description,
      scopes,
      ...times,
    });
    const begin = times.notBefore === undefined ? '' : `, and is valid from ${times.notBefore}`;
    process.stderr.write(
      `Key ${resource.metadata.name} of ${owner} in namespace ${namespace}. It is shown only now${begin}:\n`,
    );
    process.stdout.write(`${key}\n`);
  });
}

export async function listKeys(options: ClusterOptions): Promise<void> {
  const { items } = await withClient(options, (client, namespace) =>
    client.list(apiKeys, { namespace }),
  );
  if (items.length === 0) {
    process.stderr.write('There are no keys.\n');
    return;
  }
  const rows = items.map(({ metadata, spec }) => [
    metadata.name,
    spec.owner,
    spec.role,
    (spec.scopes ?? ['all']).join(','),
    spec.notBefore ?? 'at once',
    spec.disabled === true ? 'disabled' : (spec.expirationTime ?? 'never'),
    metadata.creationTimestamp,
    spec.issuedBy?.name ?? '',
    spec.description ?? '',
  ]);
  process.stdout.write(
    `${textTable([['NAME', 'OWNER', 'ROLE', 'SCOPES', 'BEGINS', 'EXPIRES', 'CREATED', 'ISSUED BY', 'DESCRIPTION'], ...rows])}\n`,
  );
}

/** Deletes the key. Gateways refuse the key as soon as their informer caches are updated. */
export async function revokeKey(name: string, options: ClusterOptions): Promise<void> {
  await withClient(options, async (client, namespace) => {
    try {
      await client.delete(apiKeys, namespace, name);
    } catch (error) {
      if (isNotFound(error))
        throw new CommandError(`there is no key ${name} in namespace ${namespace}`, {
          cause: error,
        });
      throw error;
    }
    process.stderr.write(`Key ${name} is revoked.\n`);
  });
}
