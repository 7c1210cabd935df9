import { createAppAuth } from '@octokit/auth-app';
import { request as octokitRequest } from '@octokit/request';
import type { Outward } from '@conversation-operator/outward/outward';
import { fetch, type RequestInit } from 'undici';
import { z } from 'zod';
import { HostApiError, type HostApiErrorCode } from './host-api/host-api.ts';
import { githubHeaders } from './host-api/github.ts';
import { newJsonApi, silenceOf } from './host-api/json-api.ts';

export interface MintedToken {
  /** A secret. */
  readonly token: string;
  /** Wall-clock time in milliseconds since 1970. */
  readonly expiresAt: number;
}

/** Requests of a GitHub App to the API of GitHub. Methods throw `HostApiError`. */
export interface GithubAppClient {
  /** Id of the installation that includes the repository (owner/name); undefined without one. */
  installationOf(repository: string): Promise<number | undefined>;
  /** Creates a token for this repository only. */
  mint(installation: number, repository: string): Promise<MintedToken>;
  close(): Promise<void>;
}

export interface GithubAppClientOptions {
  readonly appId: string;
  readonly apiUrl: URL;
  /** The private key as PEM, read at each use. */
  readonly privateKey: () => Promise<string>;
  /** Maximum duration of a request. Default: 15 s. */
  readonly timeoutMs?: number;
  readonly outward: Outward;
}

/** Permissions of the tokens. Comments on pull requests need no permission for issues. */
const permissions = { contents: 'write', pull_requests: 'write' };

const defaultTimeoutMs = 15_000;
const maxBodyBytes = 1024 * 1024;

const mintedSchema = z.object({
  token: z.string().regex(/^[\x21-\x7e]{1,4096}$/),
  expiresAt: z.iso.datetime({ offset: true }),
  repositorySelection: z.literal('selected'),
  repositoryNames: z.array(z.string()).optional(),
});

/** Signs JWTs with `@octokit/auth-app`, but without its cache, because the caller caches tokens. */
export function newGithubAppClient(options: GithubAppClientOptions): GithubAppClient {
  const { appId, apiUrl, privateKey, timeoutMs = defaultTimeoutMs, outward } = options;
  const dispatcher = outward.pool({
    connections: 8,
    connectTimeoutMs: 10_000,
    maxResponseBytes: maxBodyBytes,
  });
  const api = newJsonApi({
    baseUrl: apiUrl,
    dispatcher,
    authorization: (token) => `Bearer ${token}`,
    headers: githubHeaders,
    timeoutMs,
    maxBodyBytes,
  });
  const ask = octokitRequest.defaults({
    baseUrl: apiUrl.href.replace(/\/+$/, ''),
    headers: { 'user-agent': 'conversation-operator' },
    request: {
      fetch: (url: string, init: RequestInit) =>
        fetch(url, {
          ...init,
          dispatcher,
          // A redirect could send the JWT to another URL than the configured API.
          redirect: 'error',
          signal: AbortSignal.timeout(timeoutMs),
        }),
      log: { warn: () => undefined },
    },
  });
  const authorized = async () =>
    createAppAuth({ appId, privateKey: await privateKey(), request: ask, cache: noCache });

  return {
    installationOf: async (repository) => {
      const { token } = await signed(async () => (await authorized())({ type: 'app' }));
      try {
        const { id } = await api.ask(
          { token, signal: new AbortController().signal },
          { path: `/repos/${pathOf(repository)}/installation` },
          z.object({ id: z.int().positive() }),
        );
        return id;
      } catch (error) {
        if (error instanceof HostApiError && error.code === 'not-found') return undefined;
        throw error;
      }
    },
    mint: async (installationId, repository) => {
      const auth = await signed(authorized);
      const [, name = ''] = repository.split('/');
      const answer: unknown = await auth({
        type: 'installation',
        installationId,
        repositoryNames: [name],
        permissions,
        refresh: true,
      }).catch((error: unknown) => {
        throw mintError(error);
      });
      return tokenIn(answer, name);
    },
    close: () => dispatcher.destroy(),
  };
}

const noCache = { get: () => '', set: () => undefined };

const pathOf = (repository: string): string =>
  repository.split('/').map(encodeURIComponent).join('/');

/** Calls `sign`, and replaces its error, whose message may contain a part of the private key. */
async function signed<T>(sign: () => Promise<T>): Promise<T> {
  try {
    return await sign();
  } catch {
    throw new HostApiError('denied', 'The private key of the GitHub App can not be used');
  }
}

/** Replaces the error of a request for a token, because Octokit's error contains the request. */
function mintError(error: unknown): HostApiError {
  const parsed = z
    .object({
      status: z.int(),
      response: z.object({ headers: z.record(z.string(), z.unknown()) }).optional(),
    })
    .safeParse(error);
  // Octokit's error has status 500 if there is no response, and no status if the key is unusable.
  if (!parsed.success)
    return new HostApiError('denied', 'The private key of the GitHub App can not be used');
  const { status, response } = parsed.data;
  return response === undefined
    ? new HostApiError('unavailable', `The API of the git host ${silenceOf(error)}`)
    : new HostApiError(
        codeOf(status, response.headers),
        `The API of the git host answers ${status}`,
      );
}

function codeOf(status: number, headers: Readonly<Record<string, unknown>>): HostApiErrorCode {
  const isLimited =
    headers['x-ratelimit-remaining'] === '0' || headers['retry-after'] !== undefined;
  if (status === 429 || (status === 403 && isLimited)) return 'busy';
  if (status === 401) return 'denied';
  // GitHub responds with 403 for a suspended installation, and with 422 for a repository or a right
  // that the installation does not have.
  if (status === 403 || status === 422) return 'invalid';
  return status === 404 ? 'not-found' : 'unavailable';
}

/** The token in a response. Throws if the token may open more than this repository. */
function tokenIn(answer: unknown, name: string): MintedToken {
  const parsed = mintedSchema.safeParse(answer);
  const { repositoryNames: names = [name] } = parsed.data ?? {};
  const isForIt = names.length === 1 && names[0]?.toLowerCase() === name.toLowerCase();
  if (!parsed.success || !isForIt)
    throw new HostApiError(
      'unavailable',
      'The API of the git host gives no token for a repository',
    );
  const { token, expiresAt } = parsed.data;
  return { token, expiresAt: Date.parse(expiresAt) };
}
