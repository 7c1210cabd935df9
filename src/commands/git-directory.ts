import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import { CloneHandler } from '../gateway/git/clone-handler.ts';
import type { GitCredentials } from '../gateway/git/credentials.ts';
import { RepositoryAccessChecker } from '../gateway/git/repository-access-checker.ts';
import { PrivateHost } from '../gateway/git/private-host.ts';
import type { Caches } from '../gateway/lookup/cache.ts';
import { mountedGitCredentials } from './git-credentials.ts';
import type { Runtime } from './runtime.ts';

const noCredentials: GitCredentials = { of: () => Promise.resolve(undefined) };

/** To one git host, of all the sandboxes that clone from it. */
const cloneConnections = 128;

/** Credentials for private repositories, from the settings. Only the gateway has them. */
export function gitCredentials(
  config: GatewayConfig | UpConfig,
  { logger }: Runtime,
): GitCredentials {
  const { GIT_HOSTS: hosts, GIT_CREDENTIALS_DIR: folder } = config;
  return folder === undefined
    ? noCredentials
    : mountedGitCredentials({ folder, providers: Object.keys(hosts), logger });
}

/** The git hosts of a gateway's settings; closed with the stack. */
export function gitDirectory(
  config: GatewayConfig | UpConfig,
  credentials: GitCredentials,
  { clock, logger, metrics }: Runtime,
  stack: AsyncDisposableStack,
): Pick<GatewayOptions, 'gitDirectory'> {
  if (!config.GIT_CHECK) return {};
  const directory = new RepositoryAccessChecker({
    hosts: config.GIT_HOSTS,
    credentials,
    timeoutMs: config.GIT_CHECK_SECONDS * 1000,
    clock,
    logger: logger.child({ component: 'git' }),
    metrics,
  });
  stack.defer(() => directory.close());
  return { gitDirectory: directory };
}

/** The handler through which sandboxes clone private repositories; closed with the stack. */
export function cloneHandler(
  { GIT_HOSTS: hosts }: GatewayConfig | UpConfig,
  {
    credentials,
    keys,
    caches,
  }: {
    readonly credentials: GitCredentials;
    readonly keys: SandboxKeys;
    readonly caches: Pick<Caches, 'conversations'>;
  },
  runtime: Runtime,
  stack: AsyncDisposableStack,
): CloneHandler {
  const { clock, metrics } = runtime;
  const logger = runtime.logger.child({ component: 'git' });
  const host = new PrivateHost({
    hosts,
    credentials,
    connections: cloneConnections,
    clock,
    logger,
  });
  stack.defer(() => host.close());
  const [defaultProvider] = Object.keys(hosts);
  return new CloneHandler({
    host,
    keys,
    conversations: caches.conversations,
    defaultProvider,
    clock,
    logger,
    metrics,
  });
}
