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
