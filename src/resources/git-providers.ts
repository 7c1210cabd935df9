/** How the hosts of one git provider differ from those of others. */
interface GitProvider {
  /** User name that git sends with a token as password; absent if the host accepts any name. */
  readonly tokenUser?: string;
  /** The API by which the gateway opens pull requests; absent if the gateway supports none. */
  readonly api?: {
    /** Path below the base URL of a host. */
    readonly path: string;
    /** Scheme in the header Authorization of API requests. */
    readonly scheme: 'Bearer' | 'token';
  };
}

/** Every git provider. `src/gateway/git/host-api` has the calls of each `api`. */
const providers = {
  // This `path` is the one of a GitHub Enterprise Server.
  github: { tokenUser: 'x-access-token', api: { path: '/api/v3', scheme: 'Bearer' } },
  gitlab: { tokenUser: 'oauth2', api: { path: '/api/v4', scheme: 'Bearer' } },
  bitbucket: { tokenUser: 'x-token-auth' },
  forgejo: { api: { path: '/api/v1', scheme: 'token' } },
  azure_devops: {},
  bitbucket_data_center: {},
} as const satisfies Readonly<Record<string, GitProvider>>;

/** Path of the API below the base URL of a GitHub Enterprise Server. */
export const githubApiPath = providers.github.api.path;

export const gitProviders = Object.keys(providers) as readonly (keyof typeof providers)[];

/** Undefined for a name that only the setting `GIT_HOSTS` of an installation defines. */
export const gitProviderOf = (name: string | undefined): GitProvider | undefined =>
  name !== undefined && Object.hasOwn(providers, name)
    ? providers[name as keyof typeof providers]
    : undefined;

/** Whether the gateway can open pull requests on the hosts of a provider. */
export const opensPullRequests = (provider: string | undefined): boolean =>
  gitProviderOf(provider)?.api !== undefined;

/** Value of the header Authorization of API requests to a provider. */
export const apiAuthorization = (provider: string, token: string): string =>
  `${gitProviderOf(provider)?.api?.scheme ?? 'Bearer'} ${token}`;
