import { GitHttp } from '@conversation-operator/git/git-http';
import { lsRemote, type Finding } from '@conversation-operator/git/ls-remote';
import { repositoryUrl } from '@conversation-operator/git/repository-url';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { Release, Shares } from '@conversation-operator/base/shares';
import { ProblemError } from '../errors/problem-error.ts';
import { newPool, sizeOf } from '../limits/pools.ts';
import { FindingCache } from './finding-cache.ts';
import { HostLog } from './host-log.ts';
import { keyOf, type Inquiry } from './inquiry.ts';

export interface RemoteReaderOptions {
  readonly providers: Iterable<string>;
  /** Maximum duration of one request, and of its time in the queue. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The part of the timeout that a connection may take, so that the reason of a missing answer is
 * known before the timeout.
 */
const connectShare = 0.6;
/** Delay before a host is asked again that could not be connected to. */
const unreachableMs = 10_000;

/**
 * Asks git hosts for references. Equal inquiries cause one request, and a host gets a limited
 * number of requests at once, in which owners take turns.
 */
export class RemoteReader {
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #http: GitHttp;
  readonly #findings: FindingCache;
  readonly #log: HostLog;
  /** Requests under way, by the key of the inquiry. */
  readonly #underWay = new Map<string, Promise<Finding>>();
  /** Inquiries of each owner, under way or queued. */
  readonly #wanted = new Map<string, Promise<Finding>>();
  readonly #placesByProvider: ReadonlyMap<string, Shares>;
  /** Times until which a provider is not asked. */
  readonly #unreachable = new Map<string, number>();
  #isClosed = false;

  constructor({ providers, timeoutMs, clock, logger }: RemoteReaderOptions) {
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    const { total, queue } = sizeOf('hostReads');
    this.#http = new GitHttp({
      connections: total,
      connectTimeoutMs: timeoutMs * connectShare,
    });
    this.#findings = new FindingCache(clock);
    this.#log = new HostLog({ clock, logger });
    const newPlaces = () => newPool('hostReads', clock, { queue: { ...queue, maxMs: timeoutMs } });
    this.#placesByProvider = new Map(Array.from(providers, (name) => [name, newPlaces()]));
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#http.close();
  }

  /**
   * Returns the cached finding, or that of an equal inquiry of this owner under way, else asks the
   * host.
   */
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
      // Another owner may have read the same in the meantime.
      const known = this.#findings.get(inquiry) ?? this.#underWay.get(key);
      if (known !== undefined) return await known;
      if ((this.#unreachable.get(provider) ?? 0) > this.#clock.monotonic())
        return { access: 'unknown', reason: 'unreachable' };
      const request = this.#request(inquiry).finally(() => this.#underWay.delete(key));
      this.#underWay.set(key, request);
      const finding = await request;
      if (finding.isUnreachable === true)
        this.#unreachable.set(provider, this.#clock.monotonic() + unreachableMs);
      else this.#findings.set(inquiry, finding);
      if (!this.#isClosed) this.#log.record(inquiry, finding);
      return finding;
    } finally {
      release();
    }
  }

  /** Undefined where the queue for the host is full. */
  async #turnOf(owner: string, provider: string): Promise<Release | undefined> {
    try {
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
      signal: AbortSignal.timeout(this.#timeoutMs),
    });
  }
}
