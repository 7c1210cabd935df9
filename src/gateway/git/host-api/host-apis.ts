import type { GitHosts } from '../static-directory.ts';
import { forgejoApi } from './forgejo.ts';
import { githubApi, githubHeaders } from './github.ts';
import { gitlabApi } from './gitlab.ts';
import type { HostApi } from './host-api.ts';
import { newApiDispatcher, newJsonApi, type JsonApi, type JsonApiOptions } from './json-api.ts';

export interface HostApisOptions extends Pick<JsonApiOptions, 'timeoutMs' | 'maxBodyBytes'> {
  /** Base URLs of git hosts by provider. */
  readonly hosts: GitHosts;
  /** Base URLs of APIs by provider, where they are not those of the host's kind. */
  readonly apiUrls: GitHosts;
}

export interface HostApis {
  /** Undefined for a provider that is not configured, or whose API the gateway does not know. */
  of(provider: string): HostApi | undefined;
  close(): Promise<void>;
}

interface Kind {
  /** Path of the API below the base URL of a host. */
  readonly path: string;
  readonly api: (api: JsonApi) => HostApi;
  readonly authorization: (token: string) => string;
  readonly headers?: Readonly<Record<string, string>>;
}

const bearer = (token: string): string => `Bearer ${token}`;
const kinds: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ['github', { path: '/api/v3', api: githubApi, authorization: bearer, headers: githubHeaders }],
  ['gitlab', { path: '/api/v4', api: gitlabApi, authorization: bearer }],
  [
    'forgejo',
    { path: '/api/v1', api: forgejoApi, authorization: (token: string) => `token ${token}` },
  ],
]);

/**
 * The base URL of the API of a host, without user, query and fragment. Undefined where the provider
 * is not configured, has no API that the gateway knows, or is no host of the web.
 */
export function apiUrlOf(
  provider: string,
  { hosts, apiUrls }: Pick<HostApisOptions, 'hosts' | 'apiUrls'>,
): URL | undefined {
  const kind = kinds.get(provider);
  const host = Object.hasOwn(hosts, provider) ? hosts[provider] : undefined;
  if (kind === undefined || host === undefined) return undefined;
  const own = Object.hasOwn(apiUrls, provider) ? apiUrls[provider] : undefined;
  const url = new URL(own ?? host);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return undefined;
  url.username = '';
  url.password = '';
  url.search = '';
  url.hash = '';
  if (own !== undefined) return url;
  if (provider === 'github' && url.hostname === 'github.com')
    return new URL('https://api.github.com');
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${kind.path}`;
  return url;
}

/** The APIs of the configured git hosts, over one pool of connections. */
export function newHostApis({ hosts, apiUrls, ...limits }: HostApisOptions): HostApis {
  const dispatcher = newApiDispatcher();
  const apis = new Map(
    Array.from(kinds).flatMap(([provider, { api, authorization, headers = {} }]) => {
      const baseUrl = apiUrlOf(provider, { hosts, apiUrls });
      if (baseUrl === undefined) return [];
      const json = newJsonApi({ ...limits, baseUrl, dispatcher, authorization, headers });
      return [[provider, api(json)] as const];
    }),
  );
  return {
    of: (provider) => apis.get(provider),
    close: () => dispatcher.destroy(),
  };
}
