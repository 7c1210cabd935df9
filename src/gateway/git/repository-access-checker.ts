import { createHash } from 'node:crypto';
import { GitHttp } from '@conversation-operator/git/git-http';
import {
  lsRemote,
  type Finding,
  type GitAccess,
  type Listed,
} from '@conversation-operator/git/ls-remote';
import type { GitBranch } from '@conversation-operator/git/ref-list';
import { repositoryUrl } from '@conversation-operator/git/repository-url';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import { Shares, type Release } from '@conversation-operator/kube/shares';
import { repository as repositorySchema } from '../v1/schemas.ts';
import type { GitCredential, GitCredentials } from './credentials.ts';
import type { GitCheck, GitDirectory, GitRepository, GitSearch, GitWish } from './directory.ts';
import { ExpiringCache } from './expiring-cache.ts';
import { hostsOf, type Host } from './hosts.ts';
import {
  likelyBranch,
  repositoryTyped,
  staticDirectory,
  type GitHosts,
} from './static-directory.ts';

export interface RepositoryAccessCheckerOptions {
  /** Base URLs by provider, the default provider first. */
  readonly hosts: GitHosts;
  readonly credentials: GitCredentials;
  /** Maximum time that a caller waits for a host. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

interface Knowledge {
  readonly access: GitAccess;
  /** Whether the repository can be read without a credential. */
  readonly isPublic: boolean;
  readonly refs: Listed | undefined;
  readonly hasNamed?: boolean | undefined;
}

/** The part of a repository that is read, besides the access to it. */
interface About {
  readonly wantsRefs: boolean;
  readonly named?: string | undefined;
}

/** A read of one repository for one owner. */
interface Inquiry extends About {
  readonly owner: string;
  readonly host: Host;
  readonly repository: string;
  readonly credential: GitCredential | undefined;
}

const nothing: Knowledge = { access: 'unknown', isPublic: false, refs: undefined };

/**
 * Lifetime of a finding in the cache: changes on a host show soon, and many starts at once cause
 * one request.
 */
const goodForMs: Readonly<Record<GitAccess, number>> = {
  granted: 60_000,
  denied: 10_000,
  unknown: 5_000,
};
const cacheBounds = { maxEntries: 10_000, maxBytes: 32 * 1024 * 1024 };
const bytesOf = ({ refs }: Finding): number =>
  1024 +
  (refs?.branches.reduce(
    (total, { name, commitSha }) => total + 96 + name.length + commitSha.length,
    0,
  ) ?? 0);

/**
 * Maximum concurrent requests to one host, of all owners and of one. Further requests wait, and
 * owners take turns.
 */
const connectionsToHost = 8;
const questionsOfOwner = 4;
/**
 * The part of the timeout that a connection may take, so that the reason of a missing answer is
 * known before the timeout.
 */
const connectShare = 0.6;
/** Delay before a host is asked again that could not be connected to. */
const unreachableMs = 10_000;
/**
 * Maximum queued requests to one host, of all owners and of one, so that memory stays bounded while
 * a host does not answer.
 */
const maxWaiting = 512;
const maxWaitingOfOwner = 128;
/** Delay before a refused credential is logged again. */
const logAgainMs = 3_600_000;

/**
 * Asks the git hosts for the references of a repository, as git does before it clones: first
 * without a credential, so that no secret is sent where none is needed. While a host does not
 * answer, every name is taken to exist, and the start finds the error.
 */
export class RepositoryAccessChecker implements GitDirectory {
  readonly #hosts: ReadonlyMap<string, Host>;
  /** The provider of starts that name none. */
  readonly #default: string | undefined;
  readonly #static: GitDirectory;
  readonly #credentials: GitCredentials;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #metrics: Metrics;
  readonly #http: GitHttp;
  readonly #findings: ExpiringCache<Finding>;
  /** Requests under way, by the key of their finding. */
  readonly #underWay = new Map<string, Promise<Finding>>();
  /** Reads of each owner, under way or queued. */
  readonly #wanted = new Map<string, Promise<Finding>>();
  readonly #sharesByProvider: ReadonlyMap<string, Shares>;
  /** Providers that did not answer the last request. */
  readonly #away = new Set<string>();
  /** Times until which a provider is not asked. */
  readonly #unreachable = new Map<string, number>();
  /** Credentials whose refusal by a host is logged already. */
  readonly #refused: ExpiringCache<true>;
  #isClosed = false;

  constructor({
    hosts,
    credentials,
    timeoutMs,
    clock,
    logger,
    metrics,
  }: RepositoryAccessCheckerOptions) {
    this.#hosts = hostsOf(hosts);
    [this.#default] = Object.keys(hosts);
    this.#static = staticDirectory(hosts);
    this.#credentials = credentials;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    this.#logger = logger;
    this.#metrics = metrics;
    this.#http = new GitHttp({
      connections: connectionsToHost,
      connectTimeoutMs: timeoutMs * connectShare,
    });
    this.#sharesByProvider = new Map(
      Array.from(this.#hosts.keys(), (provider) => [
        provider,
        new Shares({
          ...{
            total: connectionsToHost,
            perOwner: questionsOfOwner,
            refuse: () => new TooManyQuestions(),
          },
          waiting: { clock, maxMs: timeoutMs, total: maxWaiting, perOwner: maxWaitingOfOwner },
        }),
      ]),
    );
    this.#findings = new ExpiringCache({ clock, ...cacheBounds });
    this.#refused = new ExpiringCache({ clock, ...cacheBounds });
  }

  async access({ owner, provider, repository, branch }: GitWish): Promise<GitCheck> {
    const { access, hasNamed } = await this.#learn(owner, provider, repository, {
      wantsRefs: false,
      named: branch,
    });
    const result = hasNamed === false ? 'branch-not-found' : access;
    this.#metrics.gitChecks.inc({ result });
    return result;
  }

  async repositories(search: GitSearch): Promise<readonly GitRepository[]> {
    const host = this.#hosts.get(search.provider);
    const name = host && repositoryTyped(search.query, host.url.href);
    if (name === undefined) return this.#static.repositories(search);
    const { access, isPublic, refs } = await this.#learn(search.owner, search.provider, name, {
      wantsRefs: true,
    });
    if (access === 'denied') return [];
    if (access === 'unknown') return this.#static.repositories(search);
    return [
      {
        name,
        isPublic,
        defaultBranch: refs?.defaultBranch ?? refs?.branches[0]?.name ?? likelyBranch,
      },
    ];
  }

  async branches(
    search: GitSearch & { readonly repository: string },
  ): Promise<readonly GitBranch[]> {
    const { access, refs } = await this.#learn(search.owner, search.provider, search.repository, {
      wantsRefs: true,
    });
    if (access === 'denied') return [];
    const found = refs && matching(refs, search);
    // A truncated list does not show that a branch is missing.
    return found === undefined || (found.length === 0 && refs?.isTruncated === true)
      ? this.#static.branches(search)
      : found;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#http.close();
  }

  /** Resolves within `timeoutMs`. A later answer of the host is cached for the next caller. */
  async #learn(
    owner: string,
    provider = this.#default,
    repository: string,
    about: About,
  ): Promise<Knowledge> {
    const host = provider === undefined ? undefined : this.#hosts.get(provider);
    if (host === undefined || !repositorySchema().safeParse(repository).success) return nothing;
    const { promise: late, resolve } = Promise.withResolvers<Knowledge>();
    const timer = this.#clock.after(this.#timeoutMs, () => resolve(nothing));
    const known = this.#ask(owner, host, repository, about).catch((error: unknown) => {
      this.#logger.error('the access to a repository could not be checked', {
        provider: host.provider,
        error,
      });
      return nothing;
    });
    const knowledge = await Promise.race([known, late]);
    timer.cancel();
    return knowledge;
  }

  async #ask(owner: string, host: Host, repository: string, about: About): Promise<Knowledge> {
    const everybody = await this.#find({
      owner,
      host,
      repository,
      credential: undefined,
      ...about,
    });
    if (everybody.access === 'granted')
      return {
        access: 'granted',
        isPublic: true,
        refs: everybody.refs,
        hasNamed: everybody.hasNamed,
      };
    // A host that gives no answer without a credential gives none with one either.
    if (everybody.status === undefined) return nothing;
    const credential = (await this.#credentials.of(owner, host.provider)) ?? host.credential;
    if (credential === undefined) return { ...nothing, access: everybody.access };
    const { access, refs, hasNamed } = await this.#find({
      owner,
      host,
      repository,
      credential,
      ...about,
    });
    return { access, isPublic: false, refs, hasNamed };
  }

  /**
   * Returns the cached finding, or that of an equal read of this owner under way, else asks the
   * host.
   */
  async #find(inquiry: Inquiry): Promise<Finding> {
    const { owner, host, repository, credential } = inquiry;
    const asker =
      credential === undefined
        ? ''
        : createHash('sha256').update(credential.authorization).digest('base64');
    const plain = JSON.stringify([host.provider, repository, asker]);
    const key = keyOf(plain, inquiry);
    const wanted = JSON.stringify([owner, key]);
    const known = this.#findings.get(key) ?? this.#wanted.get(wanted);
    if (known !== undefined) return known;
    const finding = this.#findInTurn(inquiry, { asker, plain, key });
    this.#wanted.set(wanted, finding);
    try {
      return await finding;
    } finally {
      this.#wanted.delete(wanted);
    }
  }

  async #findInTurn(
    inquiry: Inquiry,
    { asker, plain, key }: { readonly asker: string; readonly plain: string; readonly key: string },
  ): Promise<Finding> {
    const { owner, host, credential } = inquiry;
    const release = await this.#turnOf(owner, host.provider);
    if (release === undefined) return { access: 'unknown', reason: 'too many questions' };
    try {
      // Another owner may have read the same in the meantime.
      const known = this.#findings.get(key) ?? this.#underWay.get(key);
      if (known !== undefined) return await known;
      if ((this.#unreachable.get(host.provider) ?? 0) > this.#clock.monotonic())
        return { access: 'unknown', reason: 'unreachable' };
      const asked = this.#askHost(inquiry);
      this.#underWay.set(key, asked);
      const finding = await asked.finally(() => this.#underWay.delete(key));
      if (finding.isUnreachable === true)
        this.#unreachable.set(host.provider, this.#clock.monotonic() + unreachableMs);
      else this.#remember(plain, key, finding);
      this.#log(host, credential, asker, finding);
      return finding;
    } finally {
      release();
    }
  }

  /** Undefined where the queue for the host is full. */
  async #turnOf(owner: string, provider: string): Promise<Release | undefined> {
    try {
      return await this.#sharesByProvider.get(provider)?.wait({ owner });
    } catch (error) {
      if (error instanceof TooManyQuestions) return undefined;
      throw error;
    }
  }

  #remember(plain: string, key: string, finding: Finding): void {
    const { refs, hasNamed, ...rest } = finding;
    this.#findings.set(plain, rest, goodForMs[rest.access], bytesOf(rest));
    if (key === plain) return;
    // An incomplete finding grants the access, but the references could not be read.
    const isIncomplete =
      finding.access === 'granted' && refs === undefined && hasNamed === undefined;
    const knowledge = isIncomplete ? 'unknown' : hasNamed === false ? 'denied' : finding.access;
    this.#findings.set(key, finding, goodForMs[knowledge], bytesOf(finding));
  }

  #askHost({ host, repository, credential, wantsRefs, named }: Inquiry): Promise<Finding> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    const question = {
      repository: repositoryUrl(host.url, repository),
      within: host.url,
      wantsRefs,
      named,
      signal,
    };
    return lsRemote(this.#http, { ...question, authorization: credential?.authorization });
  }

  /** Logs changes that concern all owners, without the address of the host. */
  #log(
    { provider }: Host,
    credential: GitCredential | undefined,
    asker: string,
    { status, reason }: Finding,
  ): void {
    if (this.#isClosed) return;
    const isAway = status === undefined || status >= 500;
    if (isAway && !this.#away.has(provider)) {
      this.#away.add(provider);
      this.#logger.warn('a git host can not be asked; starts are accepted without it', {
        provider,
        reason,
      });
    } else if (!isAway && this.#away.delete(provider)) {
      this.#logger.info('a git host answers again', { provider });
    }
    if (status === 401 && credential !== undefined && this.#refused.get(asker) === undefined) {
      this.#refused.set(asker, true, logAgainMs, 0);
      this.#logger.warn('a git host does not accept a credential', {
        provider,
        credential: credential.name,
      });
    }
  }
}

const keyOf = (plain: string, { wantsRefs, named }: About): string =>
  named === undefined ? (wantsRefs ? `${plain} refs` : plain) : `${plain} named ${named}`;

class TooManyQuestions extends Error {
  override readonly name = 'TooManyQuestions';
}

/**
 * Branches whose name contains the query: the one of exactly this name first, then the default
 * branch.
 */
function matching(
  { branches, defaultBranch }: Listed,
  { query, limit }: GitSearch,
): readonly GitBranch[] {
  const wanted = query.trim().toLowerCase();
  const found = branches.filter(({ name }) => name.toLowerCase().includes(wanted));
  const first = found.filter(({ name }) => name.toLowerCase() === wanted);
  const second = found.filter((each) => each.name === defaultBranch && !first.includes(each));
  const early = new Set([...first, ...second]);
  return [...early, ...found.filter((each) => !early.has(each))].slice(0, limit);
}
