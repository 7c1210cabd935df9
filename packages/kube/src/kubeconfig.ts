import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { hostInUrl } from '@conversation-operator/base/addresses';
import type { KubeConfig } from '@kubernetes/client-node';
import type { Connection } from './transport.ts';

export interface LoadedConnection {
  readonly connection: Connection;
  /** Namespace of the current context or of the pod; 'default' when neither names one. */
  readonly namespace: string;
  /** Name of the context; '' in a pod without a kubeconfig. */
  readonly context: string;
}

export interface LoadConnectionOptions {
  /** Default: the first existing one of $KUBECONFIG, ~/.kube/config, the pod's service account. */
  readonly kubeconfig?: string;
  /** Default: the current context of the kubeconfig. */
  readonly context?: string;
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Folder with the token and the CA of the pod's service account. */
  readonly serviceAccountFolder?: string;
}

/** No usable connection to an API server was found. The message is one line for a terminal. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';
}

/** Finds the API server and its credentials as kubectl does. Throws a KubeconfigError. */
export async function loadConnection(options: LoadConnectionOptions): Promise<LoadedConnection> {
  const {
    environment = process.env,
    serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount',
  } = options;
  const files = kubeconfigFiles(options.kubeconfig, environment);
  if (files.length > 0) return fromKubeconfig(files, options.context);
  const token = join(serviceAccountFolder, 'token');
  if (existsSync(token)) return fromServiceAccount(serviceAccountFolder, environment);
  throw new KubeconfigError(
    'no cluster found: give a kubeconfig, set KUBECONFIG, or run in a pod with a service account',
  );
}

/** The kubeconfig files that `loadConnection` reads; the first one that names a thing counts. */
export function kubeconfigFiles(
  explicit: string | undefined,
  environment: LoadConnectionOptions['environment'] = {},
): readonly string[] {
  if (explicit !== undefined) return [explicit];
  // As with kubectl, missing files do not matter when KUBECONFIG lists several.
  const named = (environment['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
  if (named.length > 1) return named.filter((file) => existsSync(file));
  if (named.length === 1) return named;
  const usual = join(environment['HOME'] ?? homedir(), '.kube', 'config');
  return existsSync(usual) ? [usual] : [];
}

async function fromKubeconfig(
  files: readonly string[],
  context: string | undefined,
): Promise<LoadedConnection> {
  const where = files.join(delimiter);
  const config = await readKubeconfig(files);
  if (context !== undefined && config.getContextObject(context) === null) {
    const known = config.getContexts().map(({ name }) => name);
    throw new KubeconfigError(
      `${where}: there is no context '${context}', only ${known.join(', ')}`,
    );
  }
  if (context !== undefined) config.setCurrentContext(context);
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw new KubeconfigError(
      `${where}: the current context '${config.currentContext}' names no cluster`,
    );
  if (!URL.canParse(cluster.server))
    throw new KubeconfigError(`${where}: not a server's URL: '${cluster.server}'`);
  const user = config.getCurrentUser();
  // A client that ignored these fields would bypass the proxy or act as another user.
  if (cluster.proxyUrl !== undefined)
    throw new KubeconfigError(`${where}: proxy-url is not supported`);
  if (user?.impersonateUser !== undefined)
    throw new KubeconfigError(`${where}: impersonation is not supported`);
  if (user?.username !== undefined)
    throw new KubeconfigError(`${where}: user name and password are not supported, use a token`);
  const { ca, cert, key, token } = await credentials(config, where);
  const changing = user?.exec !== undefined || user?.authProvider !== undefined;
  return {
    connection: {
      server: cluster.server,
      ca,
      cert,
      key,
      serverName: cluster.tlsServerName,
      insecure: cluster.skipTLSVerify,
      token:
        changing && token !== undefined
          ? async () => (await credentials(config, where)).token ?? ''
          : token,
    },
    namespace: config.getContextObject(config.currentContext)?.namespace ?? 'default',
    context: config.currentContext,
  };
}

async function readKubeconfig(files: readonly string[]): Promise<KubeConfig> {
  // The import is dynamic because loading the module takes 150 ms, and only a kubeconfig needs it.
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js');
  const merged = new KubeConfig();
  for (const [index, file] of files.entries()) {
    const config = index === 0 ? merged : new KubeConfig();
    try {
      config.loadFromFile(file);
    } catch (error) {
      throw new KubeconfigError(`can't read kubeconfig ${file}: ${oneLine(error)}`, {
        cause: error,
      });
    }
    if (config !== merged) merged.mergeConfig(config, true);
  }
  return merged;
}

/** Reads the user's credentials. Runs an exec plugin unless its last response is still valid. */
async function credentials(
  config: KubeConfig,
  where: string,
): Promise<Pick<Connection, 'ca' | 'cert' | 'key'> & { readonly token: string | undefined }> {
  const options: Parameters<KubeConfig['applyToHTTPSOptions']>[0] = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw new KubeconfigError(`${where}: no credentials: ${oneLine(error)}`, { cause: error });
  }
  const header: unknown = new Map(Object.entries(options.headers ?? {})).get('Authorization');
  const token = typeof header === 'string' ? header.replace(/^Bearer /, '').trim() : '';
  return {
    ca: pemText(options.ca),
    cert: pemText(options.cert),
    key: pemText(options.key),
    token: token === '' ? undefined : token,
  };
}

const pemText = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : Buffer.isBuffer(value) ? value.toString('utf8') : undefined;

async function fromServiceAccount(
  folder: string,
  environment: LoadConnectionOptions['environment'] = {},
): Promise<LoadedConnection> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment;
  if (host === undefined || port === undefined) {
    throw new KubeconfigError(
      'a service account is mounted, but KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set',
    );
  }
  const read = async (file: string): Promise<string> =>
    (await readFile(join(folder, file), 'utf8')).trim();
  try {
    return {
      connection: {
        server: `https://${hostInUrl(host)}:${port}`,
        ca: await read('ca.crt'),
        // The kubelet replaces the token before it expires. The file is on tmpfs: reads are cheap.
        token: () => read('token'),
      },
      namespace: existsSync(join(folder, 'namespace')) ? await read('namespace') : 'default',
      context: '',
    };
  } catch (error) {
    throw new KubeconfigError(`can't read the service account: ${oneLine(error)}`, {
      cause: error,
    });
  }
}

const oneLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').trim();
