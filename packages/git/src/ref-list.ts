export const maxBranchNameLength = 255;

/**
 * Matches the branch names that git accepts. They have no dot segments, which in the path of a URL
 * would lead to another branch, and no leading dash, which looks like an option.
 */
export const branchNamePattern =
  // eslint-disable-next-line no-control-regex -- git refuses these too
  /^(?![./]|.*(?:\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|[./]$))[^-\s~^:?*[\\\x00-\x1f\x7f][^\s~^:?*[\\\x00-\x1f\x7f]*$/;

const isBranchName = (name: string): boolean =>
  name.length <= maxBranchNameLength && branchNamePattern.test(name);

export interface GitBranch {
  readonly name: string;
  readonly commitSha: string;
}

/** The branches of a repository. `defaultBranch` is undefined if HEAD names no branch. */
export interface Refs {
  readonly branches: readonly GitBranch[];
  readonly defaultBranch: string | undefined;
  /** Whether the requested branch or tag exists; absent if none was requested. */
  readonly hasNamed?: boolean;
}

export const heads = 'refs/heads/';

/** Returns the references that a name may mean to `git clone --branch`. */
export const fullNames = (name: string): readonly string[] => [
  `${heads}${name}`,
  `refs/tags/${name}`,
];

const sha = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

export const isCommitSha = (text: string): boolean => sha.test(text);

/** Returns the branch in a full name; undefined for other references and invalid names. */
export function branchOf(fullName: string): string | undefined {
  if (!fullName.startsWith(heads)) return undefined;
  const name = fullName.slice(heads.length);
  return !name.includes('\u{fffd}') && isBranchName(name) ? name : undefined;
}

/** Collects references, of which there may be tens of thousands. */
export class RefList {
  readonly #branches: GitBranch[] = [];
  #head: string | undefined;
  #defaultBranch: string | undefined;
  readonly #named: string | undefined;
  #hasNamed = false;

  /** @param named The requested branch or tag. */
  constructor(named?: string) {
    this.#named = named;
  }

  add(commitSha: string, fullName: string): void {
    if (this.#named !== undefined && fullNames(this.#named).includes(fullName))
      this.#hasNamed = true;
    if (fullName === 'HEAD') this.#head = commitSha;
    const name = branchOf(fullName);
    if (name !== undefined) this.#branches.push({ name, commitSha });
  }

  /** @param target The reference that HEAD points to. */
  pointHead(target: string): void {
    this.#defaultBranch = branchOf(target) ?? this.#defaultBranch;
  }

  /** If the host does not report HEAD's branch, `defaultBranch` is a branch with HEAD's commit. */
  refs(): Refs {
    const named = this.#named === undefined ? {} : { hasNamed: this.#hasNamed };
    const defaultBranch = this.#defaultBranch ?? this.#branchOfHead();
    const isListed = this.#branches.some(({ name }) => name === defaultBranch);
    // HEAD comes first, so its commit is known even if the list is truncated before its branch.
    const unlisted =
      defaultBranch === undefined || this.#head === undefined || isListed
        ? []
        : [{ name: defaultBranch, commitSha: this.#head }];
    return { branches: [...unlisted, ...this.#branches], defaultBranch, ...named };
  }

  #branchOfHead(): string | undefined {
    const candidates = this.#branches
      .filter(({ commitSha }) => commitSha === this.#head)
      .map(({ name }) => name);
    return ['main', 'master'].find((name) => candidates.includes(name)) ?? candidates[0];
  }
}
