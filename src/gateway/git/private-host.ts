import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { GitHostError } from '@conversation-operator/git/git-host-error';
import { GitHttp, type GitStream } from '@conversation-operator/git/git-http';
import {
  repositoryUrl,
  isDenial,
  mediaTypeOf,
  referencesOf,
  requestOf,
  smartType,
  version2,
} from '@conversation-operator/git/smart-http';
import type { Runtime } from '@conversation-operator/base/runtime';
import { expiryBy } from '../lookup/expiry.ts';
import {
  fingerprintOf,
  type GitCredential,
  type GitCredentials,
  credentialFor,
  hostsOf,
  type Host,
} from './hosts.ts';
import type { GitHosts } from './static-directory.ts';

export interface PrivateHostOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly hosts: GitHosts;
  readonly credentials: GitCredentials;
  /** Maximum concurrent connections to one host. */
  readonly connections: number;
}

export interface Wanted {
  readonly owner: string;
  readonly provider: string;
  readonly repository: string;
  /**
   * The headers of the client about the protocol. The caller leaves out all others, so that the
   * host does not get them.
   */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * - open: the repository needs no credential, or there is none: the client can clone without the
 *   gateway.
 * - denied: the host does not accept this credential, or has no such repository: hosts do not
 *   distinguish these.
 * - failed: the host gave no usable answer; `reason` is one word, and does not disclose the address
 *   of the host.
 */
export type HostAnswer =
  | { readonly kind: 'stream'; readonly stream: GitStream }
  | { readonly kind: 'open' }
  | { readonly kind: 'denied' }
  | { readonly kind: 'failed'; readonly reason: string };

const service = 'git-upload-pack';
const connectTimeoutMs = 10_000;
/**
 * Lifetime of a location in the cache: the maximum delay between the request for the references and
 * the last fetch.
 */
const locationMs = 600_000;
const maxLocations = { max: 10_000, maxSize: 4 * 1024 * 1024 };

/**
 * Reads repositories of git hosts by the credentials of owners. A host gets a credential only where
 * it refuses the request without one.
 */
export class PrivateHost {
  readonly #options: PrivateHostOptions;
  readonly #hosts: ReadonlyMap<string, Host>;
  readonly #http: GitHttp;
  /**
   * The URLs of repositories after redirects: a POST can't follow a redirect, because its body
   * can't be sent again.
   */
  readonly #locations: LRUCache<string, URL>;

  constructor(options: PrivateHostOptions) {
    const { hosts, connections, clock } = options;
    this.#options = options;
    this.#hosts = hostsOf(hosts);
    this.#http = new GitHttp({ connections, connectTimeoutMs });
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

  /** The answer to `info/refs?service=git-upload-pack`. */
  refs(wanted: Wanted): Promise<HostAnswer> {
    return this.#guarded(wanted, async (host, credential) => {
      if (await this.#isOpen(host, wanted)) return { kind: 'open' };
      return this.#refs(host, credential, wanted);
    });
  }

  /** The answer to `git-upload-pack`. */
  pack(wanted: Wanted, body: Readable): Promise<HostAnswer> {
    return this.#guarded(wanted, async (host, credential) => {
      const key = keyOf(credential, wanted);
      if (!this.#locations.has(key)) {
        const first = await this.#refs(host, credential, { ...wanted, headers: {} });
        if (first.kind !== 'stream') return first;
        first.stream.body.destroy();
      }
      const target = targetOf(host, wanted);
      const stream = await this.#http.open({
        ...target,
        ...requestOf(service),
        repository: this.#locations.get(key) ?? target.repository,
        body,
        authorization: credential.authorization,
      });
      return this.#read(stream, host, 'result');
    });
  }

  async #guarded(
    { owner, provider }: Wanted,
    ask: (host: Host, credential: GitCredential) => Promise<HostAnswer>,
  ): Promise<HostAnswer> {
    const host = this.#hosts.get(provider);
    const credential = host && (await credentialFor(owner, host, this.#options.credentials));
    if (host === undefined || credential === undefined) return { kind: 'open' };
    try {
      return await ask(host, credential);
    } catch (error) {
      if (!(error instanceof GitHostError)) throw error;
      this.#options.logger.warn('a git host did not answer a clone', {
        provider,
        reason: error.reason,
        status: error.status,
      });
      return { kind: 'failed', reason: error.reason };
    }
  }

  /**
   * Whether the repository is readable without a credential. Hosts without smart HTTP count too:
   * the client can clone from them itself.
   */
  async #isOpen(host: Host, wanted: Wanted): Promise<boolean> {
    try {
      const { status, contentType, body } = await this.#http.open({
        ...targetOf(host, { ...wanted, headers: version2 }),
        ...referencesOf(service),
      });
      body.destroy();
      // A login page has status 200, but is no answer of git.
      return status === 200 && mediaTypeOf(contentType) !== 'text/html';
    } catch (error) {
      if (error instanceof GitHostError && error.reason === 'redirect') return false;
      throw error;
    }
  }

  async #refs(host: Host, credential: GitCredential, wanted: Wanted): Promise<HostAnswer> {
    const stream = await this.#http.open({
      ...targetOf(host, wanted),
      ...referencesOf(service),
      authorization: credential.authorization,
    });
    const answer = this.#read(stream, host, 'advertisement');
    if (answer.kind !== 'stream') return answer;
    this.#locations.set(keyOf(credential, wanted), stream.repository);
    return answer;
  }

  #read(stream: GitStream, { provider }: Host, what: 'advertisement' | 'result'): HostAnswer {
    const { status, contentType, body } = stream;
    if (status === 200 && mediaTypeOf(contentType) === smartType(service, what))
      return { kind: 'stream', stream };
    body.destroy();
    if (isDenial(status)) {
      // Hosts answer 404 for every repository whose existence they do not disclose, so 404 does not
      // mean a refused credential.
      if (status !== 404)
        this.#options.logger.warn('a git host does not accept a credential for a clone', {
          provider,
          status,
        });
      return { kind: 'denied' };
    }
    return { kind: 'failed', reason: status === 200 ? 'no smart HTTP' : `status ${status}` };
  }
}

/** The repository, and the way in which it is asked for. */
const targetOf = (host: Host, { repository, headers, signal }: Wanted) => ({
  repository: repositoryUrl(host.url, repository),
  within: host.url,
  headers,
  signal,
});

const keyOf = (credential: GitCredential, { provider, repository }: Wanted): string =>
  JSON.stringify([provider, repository, fingerprintOf(credential)]);
