import { rmSync } from 'node:fs';
import { z } from 'zod';
import type { KubeClient } from '@conversation-operator/kube/client';
import { hashKey } from '../gateway/auth/key.ts';
import type { IssuedKey } from '../gateway/auth/issue-key.ts';
import { apiKeys } from '../resources/api-key.ts';
import type { DataFolder } from './data-folder.ts';

/** Namespace of everything in an embedded installation. */
export const localNamespace = 'default';

const file = 'service.json';
const schema = z.object({ url: z.url(), owner: z.string() });

/** A service that runs on this machine, for other commands. */
export type LocalService = z.output<typeof schema>;

/** Writes down the service that uses the data folder. Returns the function that removes it. */
export function announceService(folder: DataFolder, service: LocalService): () => void {
  folder.write(file, JSON.stringify(service));
  return () => rmSync(folder.file(file), { force: true });
}

/** The service that uses the data folder; undefined where none does. */
export function localService(folder: DataFolder): LocalService | undefined {
  const text = folder.read(file);
  return text === undefined ? undefined : schema.parse(JSON.parse(text));
}

/** The key of the first start; undefined where there is none, or a user has revoked it. */
export async function storedFirstKey(
  client: KubeClient,
  folder: DataFolder,
): Promise<IssuedKey | undefined> {
  const key = folder.read('api-key');
  if (key === undefined) return undefined;
  const sha256 = hashKey(key);
  const { items } = await client.list(apiKeys, { namespace: localNamespace });
  const resource = items.find(({ spec }) => spec.sha256 === sha256 && spec.disabled !== true);
  return resource && { key, resource };
}
