/** The differences between the git hosts of one provider and those of others. */
interface GitProvider {
  /** User of git whose password is a token; hosts without one take any name. */
  readonly tokenUser?: string;
  /** The API by which the gateway opens pull requests; absent: none is supported. */
  readonly api?: {
    /** Path below the base URL of a host. */
    readonly path: string;
    /** Scheme of the header Authorization, before a token. */
    readonly scheme: 'Bearer' | 'token';
  };
}

/** Every provider of a Conversation. `src/gateway/git/host-api` has the calls of each `api`. */
const providers = {
  // The path is that of GitHub Enterprise Server.
  github: { tokenUser: 'x-access-token', api: { path: '/api/v3', scheme: 'Bearer' } },
  gitlab: { tokenUser: 'oauth2', api: { path: '/api/v4', scheme: 'Bearer' } },
  bitbucket: { tokenUser: 'x-token-auth' },
  forgejo: { api: { path: '/api/v1', scheme: 'token' } },
  azure_devops: {},
  bitbucket_data_center: {},
} as const satisfies Readonly<Record<string, GitProvider>>;

/** Path of the API of every GitHub below its base URL, except github.com. */
export const githubApiPath = providers.github.api.path;

export const gitProviders = Object.keys(providers) as readonly (keyof typeof providers)[];

/** Undefined for a name that an installation defines, in `GIT_HOSTS`. */
export const gitProviderOf = (name: string | undefined): GitProvider | undefined =>
  name !== undefined && Object.hasOwn(providers, name)
    ? providers[name as keyof typeof providers]
    : undefined;

/** Whether the gateway can open pull requests on the hosts of a provider. */
export const opensPullRequests = (provider: string | undefined): boolean =>
  gitProviderOf(provider)?.api !== undefined;

/** Value of the header Authorization for the API of a provider. */
export const apiAuthorization = (provider: string, token: string): string =>
  `${gitProviderOf(provider)?.api?.scheme ?? 'Bearer'} ${token}`;
