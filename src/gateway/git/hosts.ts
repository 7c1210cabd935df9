import { createHash } from 'node:crypto';

export type GitHosts = Readonly<Record<string, string>>;

export interface GitCredential {
  /** Value of the HTTP header `Authorization` of git requests. A secret. */
  readonly authorization: string;
  /** The password or token without the user name, for the API of the host. A secret. */
  readonly token: string | undefined;
  /** Name of the credential for people who manage it. Not a secret. */
  readonly name: string;
  /**
   * Identifies a credential, even after a renewal of its secret that does not change its access.
   * Not a secret. If absent, the secret identifies the credential.
   */
  readonly identity?: string;
  /** To be called after a 401, so that the source of the credential can renew a revoked token. */
  readonly refused?: () => void;
}

export interface GitCredentials {
  /**
   * Returns the owner's current credential for the provider, else that of all owners. Some
   * credentials open `repository` only; these do not count if `repository` is absent. Never
   * rejects.
   */
  of(owner: string, provider: string, repository?: string): Promise<GitCredential | undefined>;
}

/**
 * - absent: the next source is asked.
 * - withheld: the source has an unusable credential. The next sources are not asked, because their
 *   credentials may open more repositories.
 */
export type CredentialFound = GitCredential | 'absent' | 'withheld';

export type CredentialSource = (
  owner: string,
  provider: string,
  repository: string | undefined,
) => Promise<CredentialFound>;

/** Asks the sources in their order, until one returns a credential or `withheld`. */
export const credentialsOf = (sources: readonly CredentialSource[]): GitCredentials => ({
  of: async (owner, provider, repository) => {
    for (const source of sources) {
      const found = await source(owner, provider, repository);
      if (found === 'withheld') return undefined;
      if (found !== 'absent') return found;
    }
    return undefined;
  },
});

/** Identifies a credential in a cache key, which must name a repository too. Hides the secret. */
export const fingerprintOf = ({ authorization, identity }: GitCredential): string =>
  createHash('sha256')
    .update(identity === undefined ? `secret ${authorization}` : `identity ${identity}`)
    .digest('base64');

/** HTTP basic authentication, RFC 7617. */
export const basicAuthorization = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** The user and password of a base URL, decoded as git decodes them. */
function credentialIn({ username, password }: URL): GitCredential | undefined {
  if (username === '' && password === '') return undefined;
  const [user, secret] = [decoded(username), decoded(password)];
  return {
    authorization: basicAuthorization(user, secret),
    token: tokenIn(user, secret),
    name: 'in the URL',
  };
}

/** In a URL without a password, the user is the token. A header accepts visible characters only. */
function tokenIn(user: string, password: string): string | undefined {
  const token = password === '' ? user : password;
  return /^[\x21-\x7e]+$/.test(token) ? token : undefined;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export interface Host {
  readonly provider: string;
  /** The base URL without user, query and fragment. */
  readonly url: URL;
}

export const hostsOf = (hosts: GitHosts): ReadonlyMap<string, Host> =>
  new Map(
    Object.entries(hosts).flatMap(([provider, base]) => {
      const url = new URL(base);
      // Sandboxes clone from URLs of other schemes, such as a local folder, without the gateway.
      if (url.protocol !== 'http:' && url.protocol !== 'https:') return [];
      url.username = '';
      url.password = '';
      url.search = '';
      url.hash = '';
      return [[provider, { provider, url }]];
    }),
  );

/** The credentials in the URLs of the hosts, for owners without another credential. */
export function credentialsInUrls(hosts: GitHosts): CredentialSource {
  const found = new Map(
    Object.entries(hosts).map(([provider, base]) => [provider, credentialIn(new URL(base))]),
  );
  return (_owner, provider) => Promise.resolve(found.get(provider) ?? 'absent');
}
