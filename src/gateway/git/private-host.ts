import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { GitCredential, GitCredentials } from './credentials.ts';
import { ExpiringCache } from './expiring-cache.ts';
import { GitHostError, GitHttp, type GitStream } from './git-http.ts';
import { hostsOf, repositoryUrl, type Host } from './hosts.ts';
import type { GitHosts } from './static-directory.ts';

export interface PrivateHostOptions {
  readonly hosts: GitHosts;
  readonly credentials: GitCredentials;
  /** Maximum concurrent connections to one host. */
  readonly connections: number;
  readonly clock: Clock;
  readonly logger: Logger;
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

/**
 * Statuses for repositories that do not exist, or that the client may not see. Status 451: the
 * repository is taken down.
 */
const denials: ReadonlySet<number> = new Set([401, 403, 404, 410, 451]);
const infoRefs = '/info/refs';
const uploadPack = '/git-upload-pack';
const connectTimeoutMs = 10_000;
/**
 * Lifetime of a location in the cache: the maximum delay between the request for the references and
 * the last fetch.
 */
const locationMs = 600_000;
const locations = { maxEntries: 10_000, maxBytes: 4 * 1024 * 1024 };

/**
 * Reads repositories of git hosts by the credentials of owners. A host gets a credential only where
 * it refuses the request without one.
 */
export class PrivateHost {
  readonly #hosts: ReadonlyMap<string, Host>;
  readonly #credentials: GitCredentials;
  readonly #http: GitHttp;
  readonly #logger: Logger;
  /**
   * The URLs of repositories after redirects: a POST can't follow a redirect, because its body
   * can't be sent again.
   */
  readonly #locations: ExpiringCache<URL>;

  constructor({ hosts, credentials, connections, clock, logger }: PrivateHostOptions) {
    this.#hosts = hostsOf(hosts);
    this.#credentials = credentials;
    this.#logger = logger;
    this.#http = new GitHttp({ connections, connectTimeoutMs });
    this.#locations = new ExpiringCache({ clock, ...locations });
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
      if (this.#locations.get(key) === undefined) {
        const first = await this.#refs(host, credential, { ...wanted, headers: {} });
        if (first.kind !== 'stream') return first;
        first.stream.body.destroy();
      }
      const base = this.#locations.get(key) ?? repositoryUrl(host, wanted.repository);
      const { headers, signal } = wanted;
      const url = new URL(`${base.pathname}${uploadPack}`, base);
      const request = {
        method: 'POST',
        url,
        within: host.url,
        ending: uploadPack,
        headers,
        body,
        signal,
      } as const;
      return this.#read(
        await this.#http.open({ ...request, authorization: credential.authorization }),
        host,
        'result',
      );
    });
  }

  async #guarded(
    { owner, provider }: Wanted,
    ask: (host: Host, credential: GitCredential) => Promise<HostAnswer>,
  ): Promise<HostAnswer> {
    const host = this.#hosts.get(provider);
    const credential = host && ((await this.#credentials.of(owner, provider)) ?? host.credential);
    if (host === undefined || credential === undefined) return { kind: 'open' };
    try {
      return await ask(host, credential);
    } catch (error) {
      if (!(error instanceof GitHostError)) throw error;
      this.#logger.warn('a git host did not answer a clone', {
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
  async #isOpen(host: Host, { repository, signal }: Wanted): Promise<boolean> {
    try {
      const { status, headers, body } = await this.#http.open(
        infoRefsOf(host, repository, { 'git-protocol': 'version=2' }, signal),
      );
      body.destroy();
      // A login page has status 200, but is no answer of git.
      return status === 200 && !contentTypeOf(headers).startsWith('text/html');
    } catch (error) {
      if (error instanceof GitHostError && error.reason === 'redirect') return false;
      throw error;
    }
  }

  async #refs(host: Host, credential: GitCredential, wanted: Wanted): Promise<HostAnswer> {
    const { repository, headers, signal } = wanted;
    const stream = await this.#http.open({
      ...infoRefsOf(host, repository, headers, signal),
      authorization: credential.authorization,
    });
    const answer = this.#read(stream, host, 'advertisement');
    if (answer.kind !== 'stream') return answer;
    const base = new URL(stream.url.pathname.slice(0, -infoRefs.length), stream.url.origin);
    this.#locations.set(keyOf(credential, wanted), base, locationMs, base.href.length);
    return answer;
  }

  #read(stream: GitStream, { provider }: Host, what: 'advertisement' | 'result'): HostAnswer {
    const { status, headers, body } = stream;
    if (status === 200 && contentTypeOf(headers) === `application/x-git-upload-pack-${what}`)
      return { kind: 'stream', stream };
    body.destroy();
    if (denials.has(status)) {
      // Hosts answer 404 for every repository whose existence they do not disclose, so 404 does not
      // mean a refused credential.
      if (status !== 404)
        this.#logger.warn('a git host does not accept a credential for a clone', {
          provider,
          status,
        });
      return { kind: 'denied' };
    }
    return { kind: 'failed', reason: status === 200 ? 'no smart HTTP' : `status ${status}` };
  }
}

function infoRefsOf(
  host: Host,
  repository: string,
  headers: Wanted['headers'],
  signal: AbortSignal,
) {
  const place = repositoryUrl(host, repository);
  const url = new URL(`${place.pathname}${infoRefs}?service=git-upload-pack`, place);
  return { method: 'GET', url, within: host.url, ending: infoRefs, headers, signal } as const;
}

const keyOf = ({ authorization }: GitCredential, { provider, repository }: Wanted): string =>
  JSON.stringify([
    provider,
    repository,
    createHash('sha256').update(authorization).digest('base64'),
  ]);

function contentTypeOf(headers: GitStream['headers']): string {
  const type = headers['content-type'];
  return typeof type === 'string' ? (type.split(';', 1)[0]?.trim().toLowerCase() ?? '') : '';
}
