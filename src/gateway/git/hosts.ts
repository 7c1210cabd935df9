import type { GitHosts } from './static-directory.ts';
import { createHash } from 'node:crypto';

/** A credential that opens private repositories of a git host. */
export interface GitCredential {
  /** Value of the Authorization header: a secret. */
  readonly authorization: string;
  /** Name of the credential where people manage it: no secret. */
  readonly name: string;
}

export interface GitCredentials {
  /** The present credential of an owner for a provider, else that of all owners. Never rejects. */
  of(owner: string, provider: string): Promise<GitCredential | undefined>;
}

/** Identifies a credential in the keys of caches, without its secret. */
export const fingerprintOf = ({ authorization }: GitCredential): string =>
  createHash('sha256').update(authorization).digest('base64');

/** HTTP's basic authentication, RFC 7617. */
export const basicAuthorization = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** The user that a base URL names, as git takes it. */
function credentialIn({ username, password }: URL): GitCredential | undefined {
  if (username === '' && password === '') return undefined;
  return {
    authorization: basicAuthorization(decoded(username), decoded(password)),
    name: 'in the URL',
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A git host that answers over HTTP. */
export interface Host {
  readonly provider: string;
  /** The base URL without user, query and fragment. */
  readonly url: URL;
  /** The user in the URL itself, for owners without another credential. */
  readonly credential: GitCredential | undefined;
}

export const hostsOf = (hosts: GitHosts): ReadonlyMap<string, Host> =>
  new Map(
    Object.entries(hosts).flatMap(([provider, base]) => {
      const url = new URL(base);
      // A folder is no host: the sandbox clones from it without the gateway.
      if (url.protocol !== 'http:' && url.protocol !== 'https:') return [];
      const credential = credentialIn(url);
      url.username = '';
      url.password = '';
      url.search = '';
      url.hash = '';
      return [[provider, { provider, url, credential }]];
    }),
  );

/** The credential of an owner for the host, else that of the host's URL. */
export const credentialFor = async (
  owner: string,
  { provider, credential }: Host,
  credentials: GitCredentials,
): Promise<GitCredential | undefined> => (await credentials.of(owner, provider)) ?? credential;
