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

/**
 * Base URL of a provider's host, without a credential and with a slash at its end; undefined for a
 * provider that is not configured.
 */
export function hostUrlOf(provider: string, hosts: GitHosts): string | undefined {
  const base = Object.hasOwn(hosts, provider) ? hosts[provider] : undefined;
  return base === undefined ? undefined : `${withoutUser(base).replace(/\/+$/, '')}/`;
}

export function cloneUrlOf(repository: Repository, hosts: GitHosts): string {
  const provider = providerOf(repository, hosts);
  const base = provider === undefined ? undefined : hostUrlOf(provider, hosts);
  if (base === undefined) {
    throw new StartFailure(
      StartErrorCode.providerNotConfigured,
      `The git provider ${provider ?? ''} is not configured.`,
    );
  }
  return `${base}${repository.name}.git`;
}
