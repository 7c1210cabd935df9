export interface GitRepository {
  /** owner/name, or a path through groups. */
  readonly name: string;
  readonly isPublic: boolean;
  readonly defaultBranch: string;
}

export interface GitSearch {
  /** Whose access to the host counts. */
  readonly owner: string;
  readonly provider: string;
  readonly query: string;
  readonly limit: number;
}

/** What is known of repositories on the configured git hosts. Nothing is found on a host that is not configured. */
export interface GitDirectory {
  repositories(search: GitSearch): Promise<readonly GitRepository[]>;
  /** Names of branches, the default one first. */
  branches(search: GitSearch & { readonly repository: string }): Promise<readonly string[]>;
}
