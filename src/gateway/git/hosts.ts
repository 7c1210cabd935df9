import { createHash } from 'node:crypto';

export type GitHosts = Readonly<Record<string, string>>;

/** A credential that opens private repositories of a git host. */
export interface GitCredential {
  /** Value of git's Authorization header: a secret. */
  readonly authorization: string;
  /** The password or token alone, which opens the API of the host: a secret. */
  readonly token: string | undefined;
  /** Name of the credential for people who manage it: no secret. */
  readonly name: string;
  /**
   * Identifies a credential whose secret is renewed, with the same access: no secret. Absent: the
   * secret identifies the credential.
   */
  readonly identity?: string;
  /**
   * Must be called when a host responds with 401: the source may have a new secret then, because a
   * token can be revoked before it expires.
   */
  readonly refused?: () => void;
}

export interface GitCredentials {
  /**
   * The current credential of an owner for a repository of a provider, else that of all owners,
   * possibly for this one repository only. Without a repository, credentials for one repository do
   * not count. Never rejects.
   */
  of(owner: string, provider: string, repository?: string): Promise<GitCredential | undefined>;
}

/**
 * - absent: the next source is asked.
 * - withheld: there is an unusable credential; those of the next sources may open more, so they are
 *   no substitute.
 */
export type CredentialFound = GitCredential | 'absent' | 'withheld';

export type CredentialSource = (
  owner: string,
  provider: string,
  repository: string | undefined,
) => Promise<CredentialFound>;

/** The credentials of sources, the first source first. */
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

/**
 * Identifies a credential in the keys of caches, without its secret. A key also names the
 * repository, because a credential may open only one.
 */
export const fingerprintOf = ({ authorization, identity }: GitCredential): string =>
  createHash('sha256')
    .update(identity === undefined ? `secret ${authorization}` : `identity ${identity}`)
    .digest('base64');

/** HTTP basic authentication, RFC 7617. */
export const basicAuthorization = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** The user of a base URL, as git reads it. */
function credentialIn({ username, password }: URL): GitCredential | undefined {
  if (username === '' && password === '') return undefined;
  const [user, secret] = [decoded(username), decoded(password)];
  return {
    authorization: basicAuthorization(user, secret),
    token: tokenIn(user, secret),
    name: 'in the URL',
  };
}

/** The token of a URL with a user alone is the user. A header accepts visible characters only. */
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
      // A folder is no host: the sandbox clones from it without the gateway.
      if (url.protocol !== 'http:' && url.protocol !== 'https:') return [];
      url.username = '';
      url.password = '';
      url.search = '';
      url.hash = '';
      return [[provider, { provider, url }]];
    }),
  );

/** The users in the URLs themselves, for owners without another credential. */
export function credentialsInUrls(hosts: GitHosts): CredentialSource {
  const found = new Map(
    Object.entries(hosts).map(([provider, base]) => [provider, credentialIn(new URL(base))]),
  );
  return (_owner, provider) => Promise.resolve(found.get(provider) ?? 'absent');
}
