import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import type { GitCredentials } from '../gateway/git/credentials.ts';
import { HostDirectory } from '../gateway/git/host-directory.ts';
import { mountedGitCredentials } from './git-credentials.ts';
import type { Runtime } from './runtime.ts';

const noCredentials: GitCredentials = { of: () => Promise.resolve(undefined) };

/** What a gateway knows of git hosts by its settings; closed with the stack. */
export function gitDirectory(
  config: GatewayConfig | UpConfig,
  { clock, logger, metrics }: Runtime,
  stack: AsyncDisposableStack,
): Pick<GatewayOptions, 'gitDirectory'> {
  if (!config.GIT_CHECK) return {};
  const { GIT_HOSTS: hosts, GIT_CREDENTIALS_DIR: folder } = config;
  const directory = new HostDirectory({
    hosts,
    credentials: folder === undefined ? noCredentials : mountedGitCredentials({ folder, providers: Object.keys(hosts), logger }),
    timeoutMs: config.GIT_CHECK_SECONDS * 1000,
    clock,
    logger: logger.child({ component: 'git' }),
    metrics,
  });
  stack.defer(() => directory.close());
  return { gitDirectory: directory };
}
