import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import {
  basicAuthorization,
  credentialsInUrls,
  credentialsOf,
  type CredentialSource,
  type GitCredential,
  type GitCredentials,
} from '../gateway/git/hosts.ts';
import { RepositoryAccessChecker } from '../gateway/git/directory.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { gitProviderOf } from '../resources/git-providers.ts';
import type { OutwardRuntime } from './outward.ts';
import {
  CredentialFiles,
  isCredentialName,
  secretLineOf,
  type CredentialFile,
} from './credential-files.ts';
import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { GithubApp } from '../gateway/git/github-app.ts';
import { newGithubAppClient } from '../gateway/git/github-app-client.ts';
import { githubApiUrlOf } from '../gateway/git/host-api/host-apis.ts';
import { CommandError, unreadable } from './terminal.ts';

const setting = 'GITHUB_APP_PRIVATE_KEY_FILE';
const maxKeyCharacters = 65_536;

type GithubAppConfig = Pick<
  GatewayConfig | UpConfig,
  | 'GIT_HOSTS'
  | 'GIT_API_URLS'
  | 'GITHUB_APP_ID'
  | 'GITHUB_APP_PRIVATE_KEY_FILE'
  | 'GITHUB_APP_PROVIDER'
  | 'GITHUB_APP_OWNERS'
>;

/**
 * Credentials of the GitHub App that the settings name; undefined if there is none. The stack
 * closes the client. Throws a `CommandError` if the key can not be used, so that this error occurs
 * at the start and not in the first conversation.
 */
function githubApp(
  config: GithubAppConfig,
  { clock, logger, outward }: Pick<OutwardRuntime, 'clock' | 'logger' | 'outward'>,
  stack: AsyncDisposableStack,
): CredentialSource | undefined {
  const {
    GITHUB_APP_ID: appId,
    GITHUB_APP_PRIVATE_KEY_FILE: keyFile,
    GITHUB_APP_PROVIDER: provider,
    GITHUB_APP_OWNERS: owners,
  } = config;
  if (appId === undefined || keyFile === undefined) return undefined;
  checkKey(keyFile);
  const apiUrl = githubApiUrlOf(provider, {
    hosts: config.GIT_HOSTS,
    apiUrls: config.GIT_API_URLS,
  });
  if (apiUrl === undefined)
    throw new CommandError('GITHUB_APP_PROVIDER: GIT_HOSTS has no http or https URL for it');
  if (Object.values(owners).every((patterns) => patterns.length === 0))
    logger.warn('the GitHub App serves no owner, because GITHUB_APP_OWNERS names none', { appId });
  const client = newGithubAppClient({
    appId,
    apiUrl,
    outward,
    privateKey: () => readFile(keyFile, 'utf8'),
  });
  stack.defer(() => client.close());
  return new GithubApp({ appId, provider, owners, client, clock, logger }).source;
}

/** Errors of `node:crypto` may contain a part of the key, so no such error becomes a `cause`. */
function checkKey(file: string): void {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw unreadable(setting, file, error);
  }
  if (!isPrivateKey(text))
    throw new CommandError(`${setting}: ${file} has no private RSA key as PEM`);
}

function isPrivateKey(text: string): boolean {
  try {
    return text.length <= maxKeyCharacters && createPrivateKey(text).asymmetricKeyType === 'rsa';
  } catch {
    return false;
  }
}

/** File in the folder of credentials that contains CA certificates for Node, and no credential. */
const certificatesFile = 'ca.crt';

type Secrets = Pick<GitCredential, 'authorization' | 'token'>;

/** Parses `user:password`, or a token. Undefined for any other text. */
export function secretsOf(text: string, provider: string): Secrets | undefined {
  const secret = secretLineOf(text);
  if (secret === undefined) return undefined;
  const colon = secret.indexOf(':');
  const user = colon < 0 ? (gitProviderOf(provider)?.tokenUser ?? 'token') : secret.slice(0, colon);
  const token = secret.slice(colon + 1);
  return { authorization: basicAuthorization(user, token), token };
}

export interface MountedGitCredentialsOptions {
  readonly folder: string;
  readonly providers: readonly string[];
  readonly logger: Logger;
}

/** Two sources of credentials in files. The GitHub App takes precedence over the second source. */
interface GitCredentialFiles {
  /** Files named PROVIDER.OWNER. */
  readonly own: CredentialSource;
  /** Files named PROVIDER. */
  readonly everybodys: CredentialSource;
}

function gitCredentialFiles({
  folder,
  providers,
  logger,
}: MountedGitCredentialsOptions): GitCredentialFiles {
  const known = new Set(providers.filter(isCredentialName));
  const files = new CredentialFiles({
    folder,
    logger,
    setting: 'GIT_CREDENTIALS_DIR',
    what: 'a git credential',
    expected: 'it has to be one line, user:password or a token',
  });
  for (const name of files.list()) {
    if (name !== certificatesFile && !known.has(name.split('.', 1)[0] ?? ''))
      logger.warn('a git credential is for none of the git hosts', { credential: name });
  }
  const foundIn = (found: CredentialFile<Secrets>) => {
    if (typeof found === 'string') return found === 'absent' ? found : 'withheld';
    return { ...found.value, name: found.file };
  };
  const parserOf = (provider: string) => (text: string) => secretsOf(text, provider);
  return {
    own: async (owner, provider) =>
      known.has(provider)
        ? foundIn(await files.ownOf(provider, owner, parserOf(provider)))
        : 'absent',
    everybodys: async (_owner, provider) =>
      known.has(provider)
        ? foundIn(await files.everybodysOf(provider, parserOf(provider)))
        : 'absent',
  };
}

/** Credentials for git hosts from files: PROVIDER is shared, PROVIDER.OWNER is of one owner. */
export function mountedGitCredentials(options: MountedGitCredentialsOptions): GitCredentials {
  const { own, everybodys } = gitCredentialFiles(options);
  return credentialsOf([own, everybodys]);
}

/** Reads the tokens that all owners share: those in PROVIDER files and in the URLs of `hosts`. */
export async function everybodysGitCredentials({
  hosts,
  folder,
  logger,
}: {
  readonly hosts: Readonly<Record<string, string>>;
  readonly folder: string | undefined;
  readonly logger: Logger;
}): Promise<readonly { readonly provider: string; readonly token: string }[]> {
  const providers = Object.keys(hosts);
  const sources = [
    ...(folder === undefined ? [] : [gitCredentialFiles({ folder, providers, logger }).everybodys]),
    credentialsInUrls(hosts),
  ];
  const found = await Promise.all(
    providers.map(async (provider) => {
      for (const source of sources) {
        const credential = await source('', provider, undefined);
        if (credential === 'withheld') return [];
        if (credential !== 'absent' && credential.token !== undefined)
          return [{ provider, token: credential.token }];
      }
      return [];
    }),
  );
  return found.flat();
}

type GitCredentialsConfig = GithubAppConfig &
  Pick<GatewayConfig | UpConfig, 'GIT_HOSTS' | 'GIT_CREDENTIALS_DIR'>;

/**
 * Credentials for private repositories, which only the gateway has. Files of owners come first,
 * then the GitHub App, shared files, and users in the URLs of hosts. The stack closes the App's
 * client.
 */
export function gitCredentials(
  config: GitCredentialsConfig,
  runtime: Pick<OutwardRuntime, 'clock' | 'logger' | 'outward'>,
  stack: AsyncDisposableStack,
): GitCredentials {
  const { GIT_HOSTS: hosts, GIT_CREDENTIALS_DIR: folder } = config;
  const logger = runtime.logger.child({ component: 'git' });
  const app = githubApp(config, { ...runtime, logger }, stack);
  const files =
    folder === undefined
      ? undefined
      : gitCredentialFiles({ folder, providers: Object.keys(hosts), logger });
  return credentialsOf([
    ...(files === undefined ? [] : [files.own]),
    ...(app === undefined ? [] : [app]),
    ...(files === undefined ? [] : [files.everybodys]),
    credentialsInUrls(hosts),
  ]);
}

/** Creates the checker of access to repositories, if GIT_CHECK is set. The stack closes it. */
export function gitDirectory(
  config: GatewayConfig | UpConfig,
  credentials: GitCredentials,
  { clock, logger, metrics, outward }: OutwardRuntime,
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
    outward,
  });
  stack.defer(() => directory.close());
  return { gitDirectory: directory };
}
