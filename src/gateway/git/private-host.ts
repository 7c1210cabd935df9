import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { GitHostError, GitHttp, type GitStream } from '@conversation-operator/git/git-http';
import { lsRemote } from '@conversation-operator/git/ls-remote';
import type { Refs } from '@conversation-operator/git/ref-list';
import {
  repositoryName,
  repositoryUrl,
  isDenial,
  mediaTypeOf,
  referencesOf,
  requestOf,
  smartType,
  version2,
  type GitService,
} from '@conversation-operator/git/smart-http';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { Outward } from '@conversation-operator/outward/outward';
import { ProblemError } from '../errors/problem-error.ts';
import { expiryBy } from '../lookup/cache.ts';
import {
  fingerprintOf,
  type GitCredential,
  type GitCredentials,
  hostsOf,
  type Host,
  type GitHosts,
} from './hosts.ts';

export interface PrivateHostOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly hosts: GitHosts;
  readonly credentials: GitCredentials;
  readonly connections: number;
  readonly outward: Outward;
}

export interface Wanted {
  readonly owner: string;
  readonly provider: string;
  readonly repository: string;
  readonly service: GitService;
  /** Whether the gateway relays reads of public repositories, which need no credential. */
  readonly relaysOpen: boolean;
  /** Headers of the git protocol; the caller removes all other headers of the client. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * - open: the repository needs no credential, or the gateway has none. The client can clone without
 *   the gateway.
 * - denied: the host rejects this credential, or has no such repository. Hosts do not distinguish
 *   the two.
 * - locked: a push needs a credential, and the gateway has none.
 * - failed: the host gave no usable response. `reason` does not disclose the address of the host.
 */
export type HostAnswer =
  | { readonly kind: 'stream'; readonly stream: GitStream }
  | { readonly kind: 'open' }
  | { readonly kind: 'denied' }
  | { readonly kind: 'locked' }
  | { readonly kind: 'failed'; readonly reason: string };

export interface RepositoryRefs extends Refs {
  /** The URL after redirects, for example those of a renamed repository. */
  readonly location: URL;
  readonly repository: string;
}

interface Asked {
  readonly wanted: Wanted;
  readonly what: 'advertisement' | 'result';
  readonly credential: GitCredential | undefined;
}

const connectTimeoutMs = 10_000;
/** Maximum time between the request for the references and the last request of a fetch. */
const locationMs = 600_000;
const maxLocations = { max: 10_000, maxSize: 4 * 1024 * 1024 };

/**
 * Reads from and pushes to repositories of git hosts with the credentials of owners. For a read, a
 * host gets a credential only after it has refused the request without one.
 */
export class PrivateHost {
  readonly #options: PrivateHostOptions;
  readonly #hosts: ReadonlyMap<string, Host>;
  readonly #http: GitHttp;
  /** URLs after redirects: a POST can't follow a redirect, because its body can't be sent again. */
  readonly #locations: LRUCache<string, URL>;

  constructor(options: PrivateHostOptions) {
    const { hosts, connections, clock, outward } = options;
    this.#options = options;
    this.#hosts = hostsOf(hosts);
    this.#http = new GitHttp({ connections, connectTimeoutMs, outward });
    this.#locations = new LRUCache({
      ...maxLocations,
      sizeCalculation: ({ href }) => href.length,
      ttl: locationMs,
      ...expiryBy(clock),
    });
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  /** The response to `info/refs`: the references that the host offers for the service. */
  advertisement(wanted: Wanted): Promise<HostAnswer> {
    return this.#guarded(wanted, async (host, credential) => {
      if (wanted.service === 'git-upload-pack' && (await this.#isOpen(host, wanted)))
        return wanted.relaysOpen ? this.#refs(host, undefined, wanted) : { kind: 'open' };
      return this.#refs(host, credential, wanted);
    });
  }

  /**
   * The response to a request with a body, such as the pack of a fetch. `at` is the URL that
   * `branches` has found. If `at` is absent, the URL of a recent redirect is used; without one, a
   * new request for the references finds the URL.
   */
  pack(wanted: Wanted, body: Readable, at?: URL): Promise<HostAnswer> {
    return this.#guarded(wanted, async (host, credential) => {
      let found =
        at === undefined ? this.#locationOf(credential, wanted) : { location: at, credential };
      if (found === undefined) {
        const first = await this.advertisement({ ...wanted, headers: {} });
        if (first.kind !== 'stream') return first;
        first.stream.body.destroy();
        found = this.#locationOf(credential, wanted);
      }
      const target = targetOf(host, wanted);
      const stream = await this.#http.open({
        ...target,
        ...requestOf(wanted.service),
        repository: found?.location ?? target.repository,
        body,
        authorization: (found === undefined ? credential : found.credential)?.authorization,
      });
      return this.#read(stream, { wanted, what: 'result', credential });
    });
  }

  /**
   * The branches that the owner can read, requested from git-upload-pack even before a push.
   * Undefined if they are unknown, or if their URL does not contain the name of a repository.
   */
  async branches(
    wanted: Omit<Wanted, 'service' | 'headers' | 'relaysOpen'>,
  ): Promise<RepositoryRefs | undefined> {
    const host = this.#hosts.get(wanted.provider);
    if (host === undefined) return undefined;
    const credential = await this.#credentialOf(wanted);
    const { refs, location } = await lsRemote(this.#http, {
      repository: repositoryUrl(host.url, wanted.repository),
      within: host.url,
      authorization: credential?.authorization,
      signal: wanted.signal,
      wantsRefs: true,
    });
    const repository = location && repositoryName(host.url, location);
    if (refs === undefined || location === undefined || repository === undefined) return undefined;
    return { ...refs, location, repository };
  }

  #credentialOf({
    owner,
    provider,
    repository,
  }: Pick<Wanted, 'owner' | 'provider' | 'repository'>) {
    return this.#options.credentials.of(owner, provider, repository);
  }

  /** The cached URL of the repository, with the credential of the request that found the URL. */
  #locationOf(credential: GitCredential | undefined, wanted: Wanted) {
    for (const each of [credential, undefined]) {
      const location = this.#locations.get(keyOf(each, wanted));
      if (location !== undefined) return { location, credential: each };
    }
    return undefined;
  }

  async #guarded(
    wanted: Wanted,
    ask: (host: Host, credential: GitCredential | undefined) => Promise<HostAnswer>,
  ): Promise<HostAnswer> {
    const { provider, service, relaysOpen } = wanted;
    const host = this.#hosts.get(provider);
    const credential = host && (await this.#credentialOf(wanted));
    if (credential === undefined && service === 'git-receive-pack') return { kind: 'locked' };
    if (host === undefined || (credential === undefined && !relaysOpen)) return { kind: 'open' };
    try {
      return await ask(host, credential);
    } catch (error) {
      if (!(error instanceof GitHostError)) throw error;
      // Reading the body from the sandbox has failed, so the host is not at fault.
      if (error.cause instanceof ProblemError) {
        const { message } = error.cause;
        this.#options.logger.info('the body of a sandbox was refused', {
          provider,
          reason: message,
        });
        throw error.cause;
      }
      this.#options.logger.warn('a git host did not answer a sandbox', {
        provider,
        reason: error.reason,
        status: error.status,
      });
      return { kind: 'failed', reason: error.reason };
    }
  }

  /**
   * Whether the repository can be read without a credential. Also true for hosts without smart
   * HTTP, because the client can clone from them without the gateway.
   */
  async #isOpen(host: Host, wanted: Wanted): Promise<boolean> {
    try {
      const { status, contentType, body } = await this.#http.open({
        ...targetOf(host, { ...wanted, headers: version2 }),
        ...referencesOf('git-upload-pack'),
      });
      body.destroy();
      // A login page has status 200, but is no response of git.
      return status === 200 && mediaTypeOf(contentType) !== 'text/html';
    } catch (error) {
      if (error instanceof GitHostError && error.reason === 'redirect') return false;
      throw error;
    }
  }

  async #refs(
    host: Host,
    credential: GitCredential | undefined,
    wanted: Wanted,
  ): Promise<HostAnswer> {
    const stream = await this.#http.open({
      ...targetOf(host, wanted),
      ...referencesOf(wanted.service),
      authorization: credential?.authorization,
    });
    const answer = this.#read(stream, { wanted, what: 'advertisement', credential });
    if (answer.kind !== 'stream') return answer;
    this.#locations.set(keyOf(credential, wanted), stream.repository);
    return answer;
  }

  #read(stream: GitStream, { wanted: { provider, service }, what, credential }: Asked): HostAnswer {
    const { status, contentType, headers, body } = stream;
    const isSmart = status === 200 && mediaTypeOf(contentType) === smartType(service, what);
    const { 'content-encoding': encoding = 'identity' } = headers;
    // The gateway must read the references for a push, because it removes capabilities from them.
    const isReadable =
      service !== 'git-receive-pack' || what !== 'advertisement' || encoding === 'identity';
    if (isSmart && isReadable) return { kind: 'stream', stream };
    body.destroy();
    if (isSmart) return { kind: 'failed', reason: 'encoding' };
    if (isDenial(status)) {
      if (status === 401) credential?.refused?.();
      // Hosts respond with 404 for every repository whose existence they do not disclose, so 404
      // does not mean a rejected credential.
      if (status !== 404)
        this.#options.logger.warn('a git host does not accept a credential', { provider, status });
      return { kind: 'denied' };
    }
    return { kind: 'failed', reason: status === 200 ? 'no smart HTTP' : `status ${status}` };
  }
}

const targetOf = (host: Host, { repository, headers, signal }: Wanted) => ({
  repository: repositoryUrl(host.url, repository),
  within: host.url,
  headers,
  signal,
});

const keyOf = (
  credential: GitCredential | undefined,
  { provider, repository, service }: Wanted,
): string =>
  JSON.stringify([
    provider,
    repository,
    service,
    credential === undefined ? '' : fingerprintOf(credential),
  ]);
