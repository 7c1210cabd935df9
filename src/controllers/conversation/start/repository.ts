import type { ConversationSpec } from '../../../resources/conversation.ts';
import { StartErrorCode, StartFailure } from './start-failure.ts';

/**
 * Base URLs by provider, for example `{ github: 'https://github.com' }`. The first is the default
 * of repositories without a provider.
 */
export type GitHosts = Readonly<Record<string, string>>;

export type Repository = NonNullable<ConversationSpec['repository']>;

/** Removes the credential of a base URL, which only the gateway may use. */
function withoutUser(base: string): string {
  const url = new URL(base);
  if (url.username === '' && url.password === '') return base;
  url.username = '';
  url.password = '';
  return url.href;
}

/** Name of the host that has the repository. */
export const providerOf = (repository: Repository, hosts: GitHosts): string | undefined =>
  repository.provider ?? Object.keys(hosts)[0];

export function cloneUrlOf(repository: Repository, hosts: GitHosts): string {
  const provider = providerOf(repository, hosts);
  const base =
    provider === undefined || !Object.hasOwn(hosts, provider) ? undefined : hosts[provider];
  if (base === undefined) {
    throw new StartFailure(
      StartErrorCode.providerNotConfigured,
      `The git provider ${provider ?? ''} is not configured.`,
    );
  }
  return `${withoutUser(base).replace(/\/+$/, '')}/${repository.name}.git`;
}
