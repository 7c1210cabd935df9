import type { Outward } from '@conversation-operator/outward/outward';
import {
  apiAuthorization,
  gitProviderOf,
  githubApiPath,
} from '../../../resources/git-providers.ts';
import type { GitHosts } from '../hosts.ts';
import { forgejoApi } from './forgejo.ts';
import { githubApi, githubHeaders } from './github.ts';
import { gitlabApi } from './gitlab.ts';
import type { HostApi } from './host-api.ts';
import { newApiDispatcher, newJsonApi, type JsonApi } from './json-api.ts';

export interface HostApisOptions {
  readonly hosts: GitHosts;
  /** Base URLs of APIs, by provider, if they differ from the provider's default. */
  readonly apiUrls: GitHosts;
  readonly outward: Outward;
  /** Maximum duration of one request with its redirects. Default: 15 s. */
  readonly timeoutMs?: number;
  /** Maximum size of a response. Default: 4 MiB. */
  readonly maxBodyBytes?: number;
}

export interface HostApis {
  /** Undefined if the provider is not configured, or if the gateway does not know its API. */
  of(provider: string): HostApi | undefined;
  close(): Promise<void>;
}

interface Calls {
  readonly api: (api: JsonApi) => HostApi;
  readonly headers?: Readonly<Record<string, string>>;
}

const calls: Readonly<Record<string, Calls>> = {
  github: { api: githubApi, headers: githubHeaders },
  gitlab: { api: gitlabApi },
  forgejo: { api: forgejoApi },
};

type Urls = Pick<HostApisOptions, 'hosts' | 'apiUrls'>;

/**
 * The base URL of a host's API, without user, query and fragment. Undefined if the provider is not
 * configured, has no known API, or has no http(s) URL.
 */
export function apiUrlOf(provider: string, urls: Urls): URL | undefined {
  const path = gitProviderOf(provider)?.api?.path;
  return path === undefined ? undefined : urlOf(provider, path, urls);
}

/** Like `apiUrlOf`, for a provider of any name whose host is GitHub or GitHub Enterprise Server. */
export const githubApiUrlOf = (provider: string, urls: Urls): URL | undefined =>
  urlOf(provider, githubApiPath, urls);

function urlOf(provider: string, path: string, { hosts, apiUrls }: Urls): URL | undefined {
  const host = Object.hasOwn(hosts, provider) ? hosts[provider] : undefined;
  if (host === undefined) return undefined;
  const own = Object.hasOwn(apiUrls, provider) ? apiUrls[provider] : undefined;
  const url = new URL(own ?? host);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return undefined;
  url.username = '';
  url.password = '';
  url.search = '';
  url.hash = '';
  if (own !== undefined) return url;
  if (path === githubApiPath && url.hostname === 'github.com')
    return new URL('https://api.github.com');
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  return url;
}

export function newHostApis(options: HostApisOptions): HostApis {
  const { hosts, apiUrls, outward, ...limits } = options;
  const dispatcher = newApiDispatcher(outward);
  const apis = new Map(
    Object.entries(calls).flatMap(([provider, { api, headers = {} }]) => {
      const baseUrl = apiUrlOf(provider, { hosts, apiUrls });
      if (baseUrl === undefined) return [];
      const authorization = (token: string) => apiAuthorization(provider, token);
      const json = newJsonApi({ ...limits, baseUrl, dispatcher, authorization, headers });
      return [[provider, api(json)] as const];
    }),
  );
  return { of: (provider) => apis.get(provider), close: () => dispatcher.destroy() };
}
