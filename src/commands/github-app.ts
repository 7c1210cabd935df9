import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import { GithubApp } from '../gateway/git/github-app.ts';
import { newGithubAppClient } from '../gateway/git/github-app-client.ts';
import { githubApiUrlOf } from '../gateway/git/host-api/host-apis.ts';
import type { CredentialSource } from '../gateway/git/hosts.ts';
import { CommandError, unreadable } from './command-error.ts';
import type { OutwardRuntime } from './outward.ts';

const setting = 'GITHUB_APP_PRIVATE_KEY_FILE';
const maxKeyCharacters = 65_536;

export type GithubAppConfig = Pick<
  GatewayConfig | UpConfig,
  | 'GIT_HOSTS'
  | 'GIT_API_URLS'
  | 'GITHUB_APP_ID'
  | 'GITHUB_APP_PRIVATE_KEY_FILE'
  | 'GITHUB_APP_PROVIDER'
  | 'GITHUB_APP_OWNERS'
>;

/**
 * The credentials of the GitHub App of the settings, until the stack ends; undefined where there is
 * no App. Throws a `CommandError` where its key can't be used, because that shows at the start then
 * and not with the first conversation.
 */
export function githubApp(
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
    ...{ appId, apiUrl, outward },
    privateKey: () => readFile(keyFile, 'utf8'),
  });
  stack.defer(() => client.close());
  return new GithubApp({ appId, provider, owners, client, clock, logger }).source;
}

/** Errors of the system's cryptography may contain a part of the key, so none is passed on. */
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
