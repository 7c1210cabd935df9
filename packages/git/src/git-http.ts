import type { Readable } from 'node:stream';
import {
  isClosedConnection,
  isNotConnected,
  systemCodeOf,
} from '@conversation-operator/base/system-code';
import type { Outward } from '@conversation-operator/outward/outward';
import { request, type Dispatcher } from 'undici';
import { ProxyError } from '@conversation-operator/outward/proxy-error';

/** A failed request. `reason` is one word without an address; `PROXY_…`: a proxy has failed. */
export class GitHostError extends Error {
  override readonly name = 'GitHostError';
  readonly reason: string;
  readonly status: number | undefined;

  /** Whether no connection to the host was established. Another request would then fail too. */
  get isUnreachable(): boolean {
    return (
      isNotConnected(this.cause) || this.cause instanceof ProxyError || this.reason === 'ETIMEDOUT'
    );
  }

  constructor(
    reason: string,
    { status, ...options }: ErrorOptions & { readonly status?: number } = {},
  ) {
    super(`A git host can not be asked: ${reason}.`, options);
    this.reason = reason;
    this.status = status;
  }
}

function gitHostErrorOf(error: unknown, signal: AbortSignal): GitHostError {
  if (signal.aborted) return new GitHostError('timeout', { cause: error });
  const code = systemCodeOf(error) ?? '';
  return new GitHostError(/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'connection', { cause: error });
}

interface Target {
  readonly method: 'GET' | 'POST';
  /** The URL from which git clones the repository. */
  readonly repository: URL;
  /** Base URL of the host. A redirect to a URL that is not below this one is an error. */
  readonly within: URL;
  /** Path after the repository's path, such as `/info/refs`. Redirects have to end in this path. */
  readonly path: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly authorization?: string | undefined;
  readonly signal: AbortSignal;
}

export interface GitRequest extends Target {
  readonly body?: string;
  readonly maxBodyBytes: number;
}

export interface GitStreamRequest extends Target {
  readonly body?: Readable;
}

interface AnswerHead {
  readonly status: number;
  /** The header Content-Type; empty if absent. */
  readonly contentType: string;
  readonly repository: URL;
}

export interface GitAnswer extends AnswerHead {
  readonly body: Buffer;
  /** Whether the host may have sent more bytes than `body` contains. */
  readonly isTruncated: boolean;
}

export interface GitStream extends AnswerHead {
  readonly headers: Dispatcher.ResponseData['headers'];
  /** The caller has to read or destroy the body. */
  readonly body: Readable;
}

export interface GitHttpOptions {
  /** Maximum number of concurrent connections to one host; further requests wait. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  readonly outward: Outward;
}

const maxRedirects = 3;
/** Maximum bytes of a body that are read and discarded to keep the connection for reuse. */
const maxDiscardedBytes = 16_384;

const userAgent = 'git/2 (conversation-operator)';

/** Sends requests to git hosts, limits the responses, and sends credentials only below `within`. */
export class GitHttp {
  readonly #dispatcher: Dispatcher;

  constructor({ connections, connectTimeoutMs, outward }: GitHttpOptions) {
    this.#dispatcher = outward.pool({ connections, connectTimeoutMs });
  }

  /** Returns the response, whatever its status. Throws `GitHostError` if no response arrives. */
  send(options: GitRequest): Promise<GitAnswer> {
    return following(options, (url) => this.#sendPersistently(url, options));
  }

  /** Resolves before the body is read; the signal also aborts the body. Throws `GitHostError`. */
  open(options: GitStreamRequest): Promise<GitStream> {
    const { signal } = options;
    return following(options, async (url) => {
      const response = await this.#request(url, options).catch((error: unknown) => {
        throw gitHostErrorOf(error, signal);
      });
      const { body } = response;
      // Without a listener for `error`, an abort after the last read would end the process.
      body.on('error', () => undefined);
      if (isRedirect(response.statusCode)) body.destroy();
      return { ...headOf(response), headers: response.headers, body };
    });
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }

  async #sendPersistently(url: URL, options: GitRequest) {
    const { signal } = options;
    try {
      return await this.#sendOnce(url, options).catch((error: unknown) => {
        if (!isClosedConnection(error) || signal.aborted) throw error;
        return this.#sendOnce(url, options);
      });
    } catch (error) {
      throw gitHostErrorOf(error, signal);
    }
  }

  async #sendOnce(url: URL, options: GitRequest) {
    const response = await this.#request(url, options);
    const maxBytes = response.statusCode === 200 ? options.maxBodyBytes : 0;
    const body = await readBounded(response.body, maxBytes);
    return { ...headOf(response), body, isTruncated: body.length >= maxBytes };
  }

  #request(
    url: URL,
    { method, headers, body, authorization, signal }: GitRequest | GitStreamRequest,
  ): Promise<Dispatcher.ResponseData> {
    const plain = new URL(url);
    plain.username = '';
    plain.password = '';
    return request(plain, {
      dispatcher: this.#dispatcher,
      method,
      headers: {
        accept: '*/*',
        'user-agent': userAgent,
        ...headers,
        ...(authorization === undefined ? {} : { authorization }),
      },
      body: body ?? null,
      signal,
    });
  }
}

async function following<A extends ReturnType<typeof headOf>>(
  target: Target,
  ask: (url: URL) => Promise<A>,
): Promise<Omit<A, 'location'> & Pick<AnswerHead, 'repository'>> {
  const { method, repository, path, query } = target;
  let url = new URL(
    `${repository.pathname}${path}${query === undefined ? '' : `?${query}`}`,
    repository,
  );
  for (let hops = 0; ; hops++) {
    const { location, ...answer } = await ask(url);
    const { status } = answer;
    if (!isRedirect(status))
      return { ...answer, repository: new URL(url.pathname.slice(0, -path.length), url.origin) };
    // The body of a POST may be a stream, which can't be sent again.
    if (hops === maxRedirects || method !== 'GET') throw new GitHostError('redirect', { status });
    url = redirected(url, { status, location }, target);
  }
}

function headOf({ statusCode: status, headers }: Dispatcher.ResponseData) {
  const [contentType, location] = [headers['content-type'], headers['location']];
  return {
    status,
    contentType: typeof contentType === 'string' ? contentType : '',
    location: typeof location === 'string' ? location : undefined,
  };
}

/** Reads at most `maxBytes`. Closes the connection instead of reading the rest of the body. */
async function readBounded(
  body: Dispatcher.ResponseData['body'],
  maxBytes: number,
): Promise<Buffer> {
  if (maxBytes === 0) {
    await body.dump({ limit: maxDiscardedBytes });
    return Buffer.alloc(0);
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.length;
    if (size >= maxBytes) break;
  }
  return Buffer.concat(chunks);
}

const statuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const isRedirect = (status: number): boolean => statuses.has(status);

interface RedirectBounds {
  readonly within: URL;
  /** The path of a redirect has to end in this, as git requires. Other paths may be login pages. */
  readonly path: string;
}

/** Returns the target of a redirect. Throws `GitHostError` for a target outside the bounds. */
export function redirected(
  from: URL,
  { status, location }: { readonly status: number; readonly location: string | undefined },
  { within, path }: RedirectBounds,
): URL {
  const next =
    location !== undefined && URL.canParse(location, from.href)
      ? new URL(location, from)
      : undefined;
  if (next?.pathname.endsWith(path) !== true || !isBelow(next, within))
    throw new GitHostError('redirect', { status });
  return next;
}

const isBelow = (url: URL, base: URL): boolean =>
  url.origin === base.origin &&
  url.username === '' &&
  url.pathname.startsWith(`${base.pathname.replace(/\/+$/, '')}/`);
