import { credentialIn, type GitCredential } from './credentials.ts';
import type { GitHosts } from './static-directory.ts';

/** A git host that can be asked over HTTP. */
export interface Host {
  readonly provider: string;
  /** Without user, query and fragment. */
  readonly url: URL;
  /** A user in the URL itself: for owners without another credential. */
  readonly credential: GitCredential | undefined;
}

export const hostsOf = (hosts: GitHosts): ReadonlyMap<string, Host> =>
  new Map(
    Object.entries(hosts).flatMap(([provider, base]) => {
      const url = new URL(base);
      // Folders are for whoever clones to look at: they are on the sandbox's side.
      if (url.protocol !== 'http:' && url.protocol !== 'https:') return [];
      const credential = credentialIn(url);
      url.username = '';
      url.password = '';
      url.search = '';
      url.hash = '';
      return [[provider, { provider, url, credential }]];
    }),
  );

/** Where git clones from. */
export function repositoryUrl({ url }: Host, repository: string): URL {
  const path = repository.split('/').map(encodeURIComponent).join('/');
  return new URL(`${url.pathname.replace(/\/+$/, '')}/${path}.git`, url);
}
