import { branch, repository } from '../http/fields.ts';
import type { GitAccess } from '@conversation-operator/git/ls-remote';
import type { GitBranch } from '@conversation-operator/git/ref-list';

export interface GitRepository {
  /** owner/name, or a path through groups. */
  readonly name: string;
  readonly isPublic: boolean;
  readonly defaultBranch: string;
}

export interface GitWish {
  readonly owner: string;
  readonly provider?: string | undefined;
  readonly repository: string;
  readonly branch?: string | undefined;
}

export interface GitSearch {
  /** The owner whose access to the host counts. */
  readonly owner: string;
  readonly provider: string;
  readonly query: string;
  readonly limit: number;
}

/** `branch-not-found`: the repository exists, but has no branch or tag of the name. */
export type GitCheck = GitAccess | 'branch-not-found';

/**
 * Reads about repositories on the configured git hosts. Nothing is found on a host that is not
 * configured. Never rejects.
 */
export interface GitDirectory {
  /**
   * Whether this owner may read the repository with this branch or tag. Without a provider, the
   * first host is asked.
   */
  access(wish: GitWish): Promise<GitCheck>;
  repositories(search: GitSearch): Promise<readonly GitRepository[]>;
  /** Returns the default branch first; `commitSha` is empty where the host gave no answer. */
  branches(search: GitSearch & { readonly repository: string }): Promise<readonly GitBranch[]>;
}

export type GitHosts = Readonly<Record<string, string>>;

/**
 * Default branch of most repositories. A start that names no branch gets the repository's own
 * default.
 */
export const likelyBranch = 'main';

/** The part of a URL after the repository, in the URLs of its pages on common git hosts. */
const pageOfRepository = /\/(-|blob|commit|commits|merge_requests|pull|pulls|src|tree)(\/.*)?$/;

/**
 * The repository in a text that a user has typed or pasted: owner/name, or a URL on this host.
 * Undefined when it is neither.
 */
export function repositoryTyped(text: string, baseUrl: string): string | undefined {
  const typed = text.trim();
  const base = `${baseUrl.replace(/\/+$/, '')}/`;
  const isUrl = typed.includes('://');
  if (isUrl && !typed.toLowerCase().startsWith(base.toLowerCase())) return undefined;
  const path = isUrl
    ? (typed.slice(base.length).split(/[?#]/, 1)[0] ?? '').replace(pageOfRepository, '')
    : typed;
  const name = path.replace(/\/+$/, '').replace(/\.git$/, '');
  return repository().safeParse(name).success ? name : undefined;
}

/**
 * Reads own properties only, because the provider comes from a client: `constructor` is no host.
 */
const baseUrlOf = (hosts: GitHosts, provider: string): string | undefined =>
  Object.hasOwn(hosts, provider) ? hosts[provider] : undefined;

/**
 * A directory that asks no host. Every valid name is taken to exist, and the start finds the error.
 */
export const staticDirectory = (hosts: GitHosts): GitDirectory => ({
  access: () => Promise.resolve('unknown'),
  repositories: ({ provider, query }) => {
    const baseUrl = baseUrlOf(hosts, provider);
    const name = baseUrl === undefined ? undefined : repositoryTyped(query, baseUrl);
    return Promise.resolve(
      name === undefined ? [] : [{ name, isPublic: true, defaultBranch: likelyBranch }],
    );
  },
  branches: ({ provider, query }) => {
    if (baseUrlOf(hosts, provider) === undefined) return Promise.resolve([]);
    const typed = query.trim();
    const name = typed !== '' && branch().safeParse(typed).success ? typed : likelyBranch;
    return Promise.resolve([{ name, commitSha: '' }]);
  },
});
