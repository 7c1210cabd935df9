import { existsSync } from 'node:fs';
import type { KubeClient } from '@conversation-operator/kube/client';
import { systemClock } from '@conversation-operator/base/clock';
import { httpUrl } from '../config/environment.ts';
import { createLoginLink, linkMinutes } from '../gateway/sign-in/sessions.ts';
import type { ApiKeySpec } from '../resources/api-key.ts';
import { withClient, type ClusterOptions } from './process.ts';
import { CommandError } from './terminal.ts';
import {
  DataFolder,
  localKubeconfig,
  localNamespace,
  localService,
  localServiceFolder,
  storedFirstKey,
} from './data-folder.ts';

export interface LoginLinkOptions extends ClusterOptions {
  readonly owner?: string;
  readonly role?: ApiKeySpec['role'];
  readonly url?: string;
}

/** URL of the gateway with `kubectl port-forward`, as in the NOTES of the chart. */
const forwardedUrl = 'http://127.0.0.1:3000';

/**
 * Prints only the link on standard output. The link signs a person in once: at the service of this
 * machine (`localServiceFolder`), or at a cluster if an option names one or there is no service.
 */
export async function loginLink(options: LoginLinkOptions): Promise<void> {
  const { url } = options;
  if (url !== undefined && !httpUrl.safeParse(url).success)
    throw new CommandError(`--url: ${url} is not a URL like https://agents.example.com`);
  const { kubeconfig, namespace } = options;
  const isOfCluster = kubeconfig !== undefined || namespace !== undefined;
  const folder = isOfCluster ? undefined : localServiceFolder(process.env);
  const link = await (folder === undefined ? clusterLink(options) : localLink(folder, options));
  process.stderr.write(`The link signs in once, within ${linkMinutes} minutes:\n`);
  process.stdout.write(`${link}\n`);
}

function localLink(
  path: string,
  { owner, role = 'admin', url }: LoginLinkOptions,
): Promise<string> {
  const folder = existsSync(path) ? new DataFolder(path) : undefined;
  const service = folder && localService(folder);
  if (folder === undefined || service === undefined)
    throw new CommandError(
      `DATA_DIR: no service uses ${path}: \`make run\` starts one, and -n names a cluster's namespace`,
    );
  const connection = { kubeconfig: folder.file(localKubeconfig), namespace: localNamespace };
  return withClient(connection, async (client) => {
    // The sessions of this link end once a person revokes the key of the first start.
    const first = await storedFirstKey(client, folder);
    return createLoginLink({
      client,
      namespace: localNamespace,
      clock: systemClock,
      url: url ?? service.url,
      owner: owner ?? service.owner,
      role,
      issuer: first?.resource,
    });
  });
}

function clusterLink({
  owner,
  role = 'user',
  url = forwardedUrl,
  ...cluster
}: LoginLinkOptions): Promise<string> {
  if (owner === undefined) throw new CommandError('--owner is needed: whom the link signs in as');
  return withClient(cluster, (client: KubeClient, namespace) =>
    createLoginLink({ client, namespace, clock: systemClock, url, owner, role }),
  );
}
