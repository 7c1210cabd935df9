import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import { basicAuthorization, type GitCredentials } from '../gateway/git/hosts.ts';
import { RepositoryAccessChecker } from '../gateway/git/repository-access-checker.ts';
import type { MeasuredRuntime } from '../observability/runtime.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { CredentialFiles, isCredentialName, secretLineOf } from './credential-files.ts';

/** Whom hosts expect where a token is the password; any name will do for the others. */
const tokenUsers: Readonly<Record<string, string>> = {
  github: 'x-access-token',
  gitlab: 'oauth2',
  bitbucket: 'x-token-auth',
};

/** From `user:password`, or a token alone; undefined for what is neither. */
export function authorizationOf(text: string, provider: string): string | undefined {
  const secret = secretLineOf(text);
  if (secret === undefined) return undefined;
  const colon = secret.indexOf(':');
  return colon < 0
    ? basicAuthorization(tokenUsers[provider] ?? 'token', secret)
    : basicAuthorization(secret.slice(0, colon), secret.slice(colon + 1));
}

interface MountedGitCredentialsOptions {
  readonly folder: string;
  readonly providers: readonly string[];
  readonly logger: Logger;
}

/**
 * Credentials for git hosts from files: PROVIDER is for everybody, PROVIDER.OWNER for one owner
 * instead.
 */
export function mountedGitCredentials({
  folder,
  providers,
  logger,
}: MountedGitCredentialsOptions): GitCredentials {
  const known = new Set(providers.filter(isCredentialName));
  const files = new CredentialFiles({
    folder,
    logger,
    setting: 'GIT_CREDENTIALS_DIR',
    what: 'a git credential',
    expected: 'it has to be one line, user:password or a token',
  });
  for (const name of files.list()) {
    if (!known.has(name.split('.', 1)[0] ?? ''))
      logger.warn('a git credential is for none of the git hosts', { credential: name });
  }
  return {
    of: async (owner, provider) => {
      if (!known.has(provider)) return undefined;
      const found = await files.of(provider, owner, (text) => authorizationOf(text, provider));
      return found === undefined ? undefined : { authorization: found.value, name: found.file };
    },
  };
}

const noCredentials: GitCredentials = { of: () => Promise.resolve(undefined) };

/** Credentials for private repositories, from the settings. Only the gateway has them. */
export function gitCredentials(
  config: GatewayConfig | UpConfig,
  { logger }: MeasuredRuntime,
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
  { clock, logger, metrics }: MeasuredRuntime,
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
