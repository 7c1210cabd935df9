import { existsSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import type { KubeClient } from '@conversation-operator/kube/client';
import { defaultDataDir } from '../config/environment.ts';
import { hashKey, type IssuedKey } from '../gateway/auth/key.ts';
import { apiKeys } from '../resources/api-key.ts';
import type { DataFolder } from './data-folder.ts';

/** Namespace of everything in an embedded installation. */
export const localNamespace = 'default';

/** Name of the file in the data folder by which kubectl reaches the embedded API server. */
export const localKubeconfig = 'kubeconfig';

const file = 'service.json';
const schema = z.object({ url: z.url(), owner: z.string() });

/** A service that runs on this machine, for other commands. */
export type LocalService = z.output<typeof schema>;

/**
 * The folder of a service of this machine among these, if they name one: DATA_DIR, else the folder
 * of the kubeconfig that the service has written, else the default folder. A KUBECONFIG of anything
 * else names a cluster.
 */
export function localServiceFolder({
  DATA_DIR = '',
  KUBECONFIG = '',
}: Readonly<Record<string, string | undefined>>): string | undefined {
  if (DATA_DIR !== '') return DATA_DIR;
  const folder = KUBECONFIG === '' ? defaultDataDir : dirname(KUBECONFIG);
  const isOurs = KUBECONFIG === '' || basename(KUBECONFIG) === localKubeconfig;
  return isOurs && existsSync(join(folder, file)) ? folder : undefined;
}

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
