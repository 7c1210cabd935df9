import type { Finding, RefsWanted } from '@conversation-operator/git/ls-remote';
import type { GitBranch, Refs } from '@conversation-operator/git/ref-list';
import type { Outward } from '@conversation-operator/outward/outward';
import { repository as repositorySchema } from '../http/fields.ts';
import { type GitCredentials, hostsOf, type Host } from './hosts.ts';
import {
  type GitCheck,
  type GitDirectory,
  type GitRepository,
  type GitSearch,
  type GitWish,
  likelyBranch,
  repositoryTyped,
  staticDirectory,
  type GitHosts,
} from './static-directory.ts';
import { type Inquiry, RemoteReader } from './remote-reader.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';

/**
 * Branches whose name contains the query: the one of exactly this name first, then the default
 * branch.
 */
function branchesMatching(
  { branches, defaultBranch }: Refs,
  { query, limit }: Pick<GitSearch, 'query' | 'limit'>,
): readonly GitBranch[] {
  const wanted = query.trim().toLowerCase();
  const found = branches.filter(({ name }) => name.toLowerCase().includes(wanted));
  const first = found.filter(({ name }) => name.toLowerCase() === wanted);
  const second = found.filter(({ name }) => name === defaultBranch);
  return [...new Set([...first, ...second, ...found])].slice(0, limit);
}

export interface RepositoryAccessCheckerOptions extends Pick<
  MeasuredRuntime,
  'clock' | 'logger' | 'metrics'
> {
  /** Base URLs by provider, the default provider first. */
  readonly hosts: GitHosts;
  readonly credentials: GitCredentials;
  /** Maximum time that a caller waits for a host. */
  readonly timeoutMs: number;
  readonly outward: Outward;
}

interface Knowledge extends Pick<Finding, 'access' | 'refs' | 'hasNamed'> {
  /** Whether the repository can be read without a credential. */
  readonly isPublic: boolean;
}

const nothing: Knowledge = { access: 'unknown', isPublic: false };

/**
 * Asks the git hosts for the references of a repository, as git does before it clones: first
 * without a credential, so that no secret is sent where none is needed. While a host does not
 * answer, every name is taken to exist, and the start finds the error.
 */
export class RepositoryAccessChecker implements GitDirectory {
  readonly #options: RepositoryAccessCheckerOptions;
  readonly #hosts: ReadonlyMap<string, Host>;
  /** The provider of starts that name none. */
  readonly #default: string | undefined;
  readonly #static: GitDirectory;
  readonly #reader: RemoteReader;

  constructor(options: RepositoryAccessCheckerOptions) {
    this.#options = options;
    this.#hosts = hostsOf(options.hosts);
    [this.#default] = Object.keys(options.hosts);
    this.#static = staticDirectory(options.hosts);
    this.#reader = new RemoteReader({ ...options, providers: this.#hosts.keys() });
  }

  async access({ owner, provider, repository, branch }: GitWish): Promise<GitCheck> {
    const wanted = { wantsRefs: false, named: branch };
    const { access, hasNamed } = await this.#learn(owner, provider, repository, wanted);
    const result = hasNamed === false ? 'branch-not-found' : access;
    this.#options.metrics.gitChecks.inc({ result });
    return result;
  }

  async repositories(search: GitSearch): Promise<readonly GitRepository[]> {
    const { owner, provider, query } = search;
    const host = this.#hosts.get(provider);
    const name = host && repositoryTyped(query, host.url.href);
    if (name === undefined) return this.#static.repositories(search);
    const { access, isPublic, refs } = await this.#learn(owner, provider, name, {
      wantsRefs: true,
    });
    if (access === 'denied') return [];
    if (access === 'unknown') return this.#static.repositories(search);
    const defaultBranch = refs?.defaultBranch ?? refs?.branches[0]?.name ?? likelyBranch;
    return [{ name, isPublic, defaultBranch }];
  }

  async branches(
    search: GitSearch & { readonly repository: string },
  ): Promise<readonly GitBranch[]> {
    const { owner, provider, repository } = search;
    const { access, refs } = await this.#learn(owner, provider, repository, { wantsRefs: true });
    if (access === 'denied') return [];
    const found = refs && branchesMatching(refs, search);
    // A truncated list does not show that a branch is missing.
    return found === undefined || (found.length === 0 && refs?.isTruncated === true)
      ? this.#static.branches(search)
      : found;
  }

  close(): Promise<void> {
    return this.#reader.close();
  }

  /** Resolves within `timeoutMs`. A later answer of the host is cached for the next caller. */
  async #learn(
    owner: string,
    provider = this.#default,
    repository: string,
    wanted: RefsWanted,
  ): Promise<Knowledge> {
    const host = provider === undefined ? undefined : this.#hosts.get(provider);
    if (host === undefined || !repositorySchema().safeParse(repository).success) return nothing;
    const { clock, timeoutMs, logger } = this.#options;
    const { promise: late, resolve } = Promise.withResolvers<Knowledge>();
    const timer = clock.after(timeoutMs, () => resolve(nothing));
    const known = this.#ask({ owner, host, repository, ...wanted }).catch((error: unknown) => {
      logger.error('the access to a repository could not be checked', {
        provider: host.provider,
        error,
      });
      return nothing;
    });
    const knowledge = await Promise.race([known, late]);
    timer.cancel();
    return knowledge;
  }

  async #ask(inquiry: Omit<Inquiry, 'credential'>): Promise<Knowledge> {
    const anonymous = await this.#reader.read({ ...inquiry, credential: undefined });
    if (anonymous.access === 'granted') return { ...anonymous, isPublic: true };
    // A host that gives no answer without a credential gives none with one either.
    if (anonymous.status === undefined) return nothing;
    const { owner, host, repository } = inquiry;
    const credential = await this.#options.credentials.of(owner, host.provider, repository);
    if (credential === undefined) return { access: anonymous.access, isPublic: false };
    return { ...(await this.#reader.read({ ...inquiry, credential })), isPublic: false };
  }
}
