import { credentialIn, type GitCredential, type GitCredentials } from './credentials.ts';
import type { GitHosts } from './static-directory.ts';

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
