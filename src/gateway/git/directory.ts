import type { Finding, RefsWanted, GitAccess } from '@conversation-operator/git/ls-remote';
import type { GitBranch, Refs } from '@conversation-operator/git/ref-list';
import type { Outward } from '@conversation-operator/outward/outward';
import {
  repository as repositorySchema,
  branch,
  repository,
  paging,
  unusedParameter,
} from '../http/fields.ts';
import { type GitCredentials, type GitHosts, hostsOf, type Host } from './hosts.ts';
import { type Inquiry, RemoteReader } from './remote-reader.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import { z } from 'zod';
import { type Route, endpoints } from '../http/route.ts';
import { pageSchema } from '../presenters/schemas.ts';

interface GitRepository {
  /** The name in the form owner/name, or a path with the groups of GitLab. */
  readonly name: string;
  readonly isPublic: boolean;
  readonly defaultBranch: string;
}

interface GitWish {
  readonly owner: string;
  readonly provider?: string | undefined;
  readonly repository: string;
  readonly branch?: string | undefined;
}

interface GitSearch {
  /** The owner whose credential for the host is used. */
  readonly owner: string;
  readonly provider: string;
  readonly query: string;
  readonly limit: number;
}

/** `branch-not-found`: the repository exists, but has no branch or tag with this name. */
type GitCheck = GitAccess | 'branch-not-found';

/** Finds repositories and branches on configured git hosts only. Methods never reject. */
export interface GitDirectory {
  /** Whether the owner may read the repository and the branch. Default provider: the first host. */
  access(wish: GitWish): Promise<GitCheck>;
  repositories(search: GitSearch): Promise<readonly GitRepository[]>;
  /** Exact matches, then the default branch, come first. An unknown `commitSha` is empty. */
  branches(search: GitSearch & { readonly repository: string }): Promise<readonly GitBranch[]>;
}

/** Shown if the default branch is unknown; a start without a branch uses the real default. */
const likelyBranch = 'main';

/** Matches the part after the repository in URLs of pages of common git hosts. */
const pageOfRepository = /\/(-|blob|commit|commits|merge_requests|pull|pulls|src|tree)(\/.*)?$/;

/** The repository in a typed or pasted text (owner/name, or a URL on this host), else undefined. */
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

/** Reads own properties only: a client may send `constructor` as the provider, which is no host. */
const baseUrlOf = (hosts: GitHosts, provider: string): string | undefined =>
  Object.hasOwn(hosts, provider) ? hosts[provider] : undefined;

/** A directory that asks no host: a valid name counts as existing, and a clone detects errors. */
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

/** Branches whose name contains the query: an exact match first, then the default branch. */
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

export interface RepositoryAccessCheckerOptions extends Omit<MeasuredRuntime, 'random'> {
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
 * Asks the git hosts for the references of a repository, as git does before a clone. The first
 * request has no credential, so that no secret is sent for a public repository. While a host does
 * not answer, every name counts as existing, and the clone detects errors.
 */
export class RepositoryAccessChecker implements GitDirectory {
  readonly #options: RepositoryAccessCheckerOptions;
  readonly #hosts: ReadonlyMap<string, Host>;
  readonly #default: string | undefined;
  readonly #static: GitDirectory;
  readonly #reader: RemoteReader;

  constructor(options: RepositoryAccessCheckerOptions) {
    this.#options = options;
    this.#hosts = hostsOf(options.hosts);
    [this.#default] = Object.keys(options.hosts);
    this.#static = staticDirectory(options.hosts);
    this.#reader = new RemoteReader({
      timeoutMs: options.timeoutMs,
      clock: options.clock,
      logger: options.logger,
      outward: options.outward,
      providers: this.#hosts.keys(),
    });
  }

  async access(wish: GitWish): Promise<GitCheck> {
    const wanted = { wantsRefs: false, named: wish.branch };
    const { access, hasNamed } = await this.#learn(wish, wanted);
    const result = hasNamed === false ? 'branch-not-found' : access;
    this.#options.metrics.gitChecks.inc({ result });
    return result;
  }

  async repositories(search: GitSearch): Promise<readonly GitRepository[]> {
    const { provider, query } = search;
    const host = this.#hosts.get(provider);
    const name = host && repositoryTyped(query, host.url.href);
    if (name === undefined) return this.#static.repositories(search);
    const wish = { ...search, repository: name };
    const { access, isPublic, refs } = await this.#learn(wish, { wantsRefs: true });
    if (access === 'denied') return [];
    if (access === 'unknown') return this.#static.repositories(search);
    const defaultBranch = refs?.defaultBranch ?? refs?.branches[0]?.name ?? likelyBranch;
    return [{ name, isPublic, defaultBranch }];
  }

  async branches(
    search: GitSearch & { readonly repository: string },
  ): Promise<readonly GitBranch[]> {
    const { access, refs } = await this.#learn(search, { wantsRefs: true });
    if (access === 'denied') return [];
    const found = refs && branchesMatching(refs, search);
    // A truncated list does not prove that no branch matches.
    return found === undefined || (found.length === 0 && refs?.isTruncated === true)
      ? this.#static.branches(search)
      : found;
  }

  close(): Promise<void> {
    return this.#reader.close();
  }

  /** Resolves within `timeoutMs`. A later answer of the host is cached for the next caller. */
  async #learn(
    { owner, provider = this.#default, repository }: GitWish,
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
    // If the host does not answer without a credential, a request with one is of no use.
    if (anonymous.status === undefined) return nothing;
    const { owner, host, repository } = inquiry;
    const credential = await this.#options.credentials.of(owner, host.provider, repository);
    if (credential === undefined) return { access: anonymous.access, isPublic: false };
    return { ...(await this.#reader.read({ ...inquiry, credential })), isPublic: false };
  }
}

const { get } = endpoints('git');

const search = z.object({
  provider: z.string().max(64).optional().describe('By default the first one that is configured.'),
  query: z.string().max(2048).default(''),
  limit: paging.limit,
  page_id: unusedParameter('there is one page.'),
});
const foundRepositorySchema = z.object({
  id: z.string(),
  full_name: z.string(),
  git_provider: z.string(),
  is_public: z.boolean(),
  main_branch: z.string(),
});
const branchSchema = z.object({ name: z.string(), commit_sha: z.string(), protected: z.boolean() });

export const gitRoutes = ({
  gitHosts,
  git,
}: {
  readonly gitHosts: GitHosts;
  readonly git: GitDirectory;
}): readonly Route[] => {
  const [first = ''] = Object.keys(gitHosts);
  return [
    get('/api/v1/git/repositories/search', 'searchRepositories', {
      summary: 'Repositories on the configured git hosts by name or URL',
      query: search.extend({
        installation_id: unusedParameter('repositories are found by their name or URL.'),
      }),
      responses: { 200: pageSchema(foundRepositorySchema) },
      handle: async ({ owner, query: { provider = first, query, limit } }) => {
        const found = await git.repositories({ owner, provider, query, limit });
        const items = found.map(({ name, isPublic, defaultBranch }) => ({
          id: name,
          full_name: name,
          git_provider: provider,
          is_public: isPublic,
          main_branch: defaultBranch,
        }));
        return { json: { items, next_page_id: null } };
      },
    }),
    get('/api/v1/git/branches/search', 'searchBranches', {
      summary: 'Branches of a repository',
      query: search.extend({ repository: z.string().max(255) }),
      responses: { 200: pageSchema(branchSchema) },
      handle: async ({ owner, query: { provider = first, repository, query, limit } }) => {
        const found = await git.branches({ owner, provider, repository, query, limit });
        const items = found.map(({ name, commitSha }) => ({
          name,
          commit_sha: commitSha,
          protected: false,
        }));
        return { json: { items, next_page_id: null } };
      },
    }),
  ];
};
