import { GitHttp } from '@conversation-operator/git/git-http';
import {
  lsRemote,
  type Finding,
  type GitAccess,
  type RefsWanted,
} from '@conversation-operator/git/ls-remote';
import { repositoryUrl } from '@conversation-operator/git/smart-http';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { Release, Shares } from '@conversation-operator/base/shares';
import type { Outward } from '@conversation-operator/outward/outward';
import { ProblemError } from '../errors/problem-error.ts';
import { HostBudget, type HostBudgetSize } from '../limits/host-budget.ts';
import { newPool, sizeOf } from '../limits/pools.ts';
import { LRUCache } from 'lru-cache';
import { expiryBy } from '../lookup/cache.ts';
import { fingerprintOf, type GitCredential, type Host } from './hosts.ts';

export interface Inquiry extends RefsWanted {
  readonly owner: string;
  readonly host: Host;
  readonly repository: string;
  /** Undefined for a request without a credential. */
  readonly credential: GitCredential | undefined;
}

/** Identifies the repository and the credential of an inquiry. Its owner makes no difference. */
const accessKeyOf = ({ host, repository, credential }: Inquiry): string =>
  JSON.stringify([
    host.provider,
    repository,
    credential === undefined ? '' : fingerprintOf(credential),
  ]);

/** Identifies the repository, the credential and the requested references of an inquiry. */
export function keyOf(inquiry: Inquiry): string {
  const accessKey = accessKeyOf(inquiry);
  if (inquiry.named !== undefined) return `${accessKey} named ${inquiry.named}`;
  return inquiry.wantsRefs ? `${accessKey} refs` : accessKey;
}

/** Delay before the rejection of a credential is logged again. */
const repeatMs = 3_600_000;
const maxRefused = 10_000;

/** Logs outages of git hosts and rejected credentials. No line contains the address of a host. */
class HostLog {
  readonly #logger: Logger;
  /** Providers whose last request had no response, or a status of at least 500. */
  readonly #away = new Set<string>();
  /** Fingerprints of credentials whose rejection has been logged. */
  readonly #refused: LRUCache<string, true>;

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#logger = logger;
    this.#refused = new LRUCache({ max: maxRefused, ttl: repeatMs, ...expiryBy(clock) });
  }

  record({ host: { provider }, credential }: Inquiry, { status, reason }: Finding): void {
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
    if (status !== 401 || credential === undefined) return;
    credential.refused?.();
    const fingerprint = fingerprintOf(credential);
    if (this.#refused.has(fingerprint)) return;
    this.#refused.set(fingerprint, true);
    this.#logger.warn('a git host does not accept a credential', {
      provider,
      credential: credential.name,
    });
  }
}

/** Lifetimes of cached findings. Changes show soon, and simultaneous starts share a request. */
const lifetimesMs: Readonly<Record<GitAccess, number>> = {
  granted: 60_000,
  denied: 10_000,
  unknown: 5_000,
};
const limits = { max: 10_000, maxSize: 32 * 1024 * 1024 };

const bytesOf = ({ refs }: Finding): number =>
  1024 +
  (refs?.branches.reduce(
    (total, { name, commitSha }) => total + 96 + name.length + commitSha.length,
    0,
  ) ?? 0);

/** Caches findings for a limited time, by repository, credential and requested references. */
export class FindingCache {
  readonly #findings: LRUCache<string, Finding>;

  constructor(clock: Clock) {
    this.#findings = new LRUCache({ ...limits, sizeCalculation: bytesOf, ...expiryBy(clock) });
  }

  get(inquiry: Inquiry): Finding | undefined {
    return this.#findings.get(keyOf(inquiry));
  }

  /** Stores the finding, and a copy without references for inquiries that request none. */
  set(inquiry: Inquiry, finding: Finding): void {
    const { refs, hasNamed, ...access } = finding;
    const [accessKey, key] = [accessKeyOf(inquiry), keyOf(inquiry)];
    this.#findings.set(accessKey, access, { ttl: lifetimesMs[access.access] });
    if (key !== accessKey)
      this.#findings.set(key, finding, { ttl: lifetimesMs[certaintyOf(finding)] });
  }
}

/**
 * The access that sets the lifetime in the cache: `unknown` if the requested references are
 * missing, `denied` if the named reference does not exist.
 */
function certaintyOf({ access, refs, hasNamed }: Finding): GitAccess {
  if (access !== 'granted') return access;
  if (hasNamed === undefined && refs === undefined) return 'unknown';
  return hasNamed === false ? 'denied' : 'granted';
}

export interface RemoteReaderOptions {
  readonly providers: Iterable<string>;
  /** Maximum duration of one request, and maximum time of a request in the queue. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Maximum requests of an owner in an hour. Default: 12,000, two for each of 6,000 starts. */
  readonly budget?: HostBudgetSize;
  readonly outward: Outward;
}

const defaultBudget: HostBudgetSize = { perOwner: 12_000 };

/** Part of `timeoutMs` for connecting, which distinguishes unreachable hosts from slow hosts. */
const connectShare = 0.6;
/** Time without requests to a host after a connection to it has failed. */
const unreachableMs = 10_000;

/**
 * Asks git hosts for references. Equal inquiries at the same time cause one request. The number of
 * concurrent requests to a host is limited, and owners get permits round robin.
 */
export class RemoteReader {
  readonly #options: RemoteReaderOptions;
  readonly #http: GitHttp;
  readonly #findings: FindingCache;
  readonly #log: HostLog;
  /** Requests in flight, by `keyOf` the inquiry. */
  readonly #underWay = new Map<string, Promise<Finding>>();
  /** Inquiries in flight or queued, by owner and `keyOf` the inquiry. */
  readonly #wanted = new Map<string, Promise<Finding>>();
  readonly #budget: HostBudget;
  readonly #placesByProvider: ReadonlyMap<string, Shares>;
  /** Monotonic time until which an unreachable provider is not asked, by provider. */
  readonly #unreachable = new Map<string, number>();
  #isClosed = false;

  constructor(options: RemoteReaderOptions) {
    const { providers, timeoutMs, clock, outward } = options;
    this.#options = options;
    const { total, queue } = sizeOf('hostReads');
    this.#http = new GitHttp({
      connections: total,
      connectTimeoutMs: timeoutMs * connectShare,
      outward,
    });
    this.#findings = new FindingCache(clock);
    this.#log = new HostLog(options);
    this.#budget = new HostBudget(clock, options.budget ?? defaultBudget);
    const newPlaces = () => newPool('hostReads', clock, { queue: { ...queue, maxMs: timeoutMs } });
    this.#placesByProvider = new Map(Array.from(providers, (name) => [name, newPlaces()]));
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#http.close();
  }

  /** Returns the cached finding, or that of a pending inquiry of this owner, else asks the host. */
  async read(inquiry: Inquiry): Promise<Finding> {
    const key = JSON.stringify([inquiry.owner, keyOf(inquiry)]);
    const known = this.#findings.get(inquiry) ?? this.#wanted.get(key);
    if (known !== undefined) return known;
    const finding = this.#readInTurn(inquiry).finally(() => this.#wanted.delete(key));
    this.#wanted.set(key, finding);
    return finding;
  }

  async #readInTurn(inquiry: Inquiry): Promise<Finding> {
    const { provider } = inquiry.host;
    const release = await this.#turnOf(inquiry.owner, provider);
    if (release === undefined) return { access: 'unknown', reason: 'too many questions' };
    try {
      const key = keyOf(inquiry);
      // Another owner's inquiry may have found the same references during the wait.
      const known = this.#findings.get(inquiry) ?? this.#underWay.get(key);
      if (known !== undefined) return await known;
      if ((this.#unreachable.get(provider) ?? 0) > this.#options.clock.monotonic())
        return { access: 'unknown', reason: 'unreachable' };
      const request = this.#request(inquiry).finally(() => this.#underWay.delete(key));
      this.#underWay.set(key, request);
      const finding = await request;
      if (finding.isUnreachable === true)
        this.#unreachable.set(provider, this.#options.clock.monotonic() + unreachableMs);
      else this.#findings.set(inquiry, finding);
      if (!this.#isClosed) this.#log.record(inquiry, finding);
      return finding;
    } finally {
      release();
    }
  }

  /** Waits for a permit. Undefined if the queue is full, or if the owner has asked too often. */
  async #turnOf(owner: string, provider: string): Promise<Release | undefined> {
    try {
      this.#budget.take({ owner });
      return await this.#placesByProvider.get(provider)?.wait({ owner });
    } catch (error) {
      if (error instanceof ProblemError) return undefined;
      throw error;
    }
  }

  #request({ host, repository, credential, wantsRefs, named }: Inquiry): Promise<Finding> {
    return lsRemote(this.#http, {
      repository: repositoryUrl(host.url, repository),
      within: host.url,
      authorization: credential?.authorization,
      wantsRefs,
      named,
      signal: AbortSignal.timeout(this.#options.timeoutMs),
    });
  }
}
