import { systemCodeOf } from '@conversation-operator/kube/errors';
import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher } from 'undici';

export interface GitRequest {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  /** Redirects lead only below this URL. */
  readonly within: URL;
  /**
   * Redirects lead only to paths with this ending, as git itself requires: others are pages for
   * people.
   */
  readonly ending: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Value of the Authorization header. */
  readonly authorization?: string | undefined;
  readonly signal: AbortSignal;
  /** Maximum bytes of an answer that are read. */
  readonly maxBodyBytes: number;
}

export interface GitAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** Whether the body may be longer than the bytes that were read. */
  readonly isTruncated: boolean;
  /** The URL of the answer, after redirects. */
  readonly url: URL;
}

export interface GitStreamRequest extends Omit<GitRequest, 'body' | 'maxBodyBytes'> {
  /** The body, which is sent as it arrives. */
  readonly body?: Readable;
}

export interface GitStream {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** The caller reads or destroys the body in any case. */
  readonly body: Readable;
  /** The URL of the answer, after redirects. */
  readonly url: URL;
}

/**
 * The failure of a request to a git host. `reason` is one word, and the error discloses nothing
 * about the address of the host.
 */
export class GitHostError extends Error {
  override readonly name = 'GitHostError';
  readonly reason: string;
  /** The status of the answer; undefined where the host gave none. */
  readonly status: number | undefined;

  /** Whether no connection was established. */
  get isUnreachable(): boolean {
    return notConnected.has(this.reason);
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

export interface GitHttpOptions {
  /** Maximum concurrent connections to one host; further requests wait. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
}

const maxRedirects = 3;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Errors of attempts to connect. Nothing was sent, and another request would fail too. */
const notConnected: ReadonlySet<string> = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
/** Errors of a pooled connection that the host closed at the moment of the request. */
const staleConnection: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** Hosts distinguish git from browsers by this header. */
const userAgent = 'git/2 (conversation-operator)';

/**
 * Sends bounded requests to git hosts. Requests and credentials are only sent to URLs below the
 * configured base URL of a host.
 */
export class GitHttp {
  readonly #dispatcher: Dispatcher;

  constructor({ connections, connectTimeoutMs }: GitHttpOptions) {
    this.#dispatcher = new Agent({
      connections,
      keepAliveTimeout: 4000,
      keepAliveMaxTimeout: 4000,
      connect: { timeout: connectTimeoutMs },
      // The signal of each request is its deadline.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    });
  }

  /** Returns the answer, whatever its status; throws `GitHostError` where there is none. */
  async send(options: GitRequest): Promise<GitAnswer> {
    let { url } = options;
    for (let hops = 0; ; hops++) {
      const { location, ...answer } = await this.#sendPersistently({ ...options, url });
      const { status } = answer;
      if (!redirects.has(status)) return answer;
      if (hops === maxRedirects || options.method !== 'GET')
        throw new GitHostError('redirect', { status });
      url = redirected(url, location, options, status);
    }
  }

  /**
   * Returns the answer before its body has arrived; the signal bounds the time. Throws
   * `GitHostError` where there is none.
   */
  async open(options: GitStreamRequest): Promise<GitStream> {
    const { method, headers, body = null, authorization, signal } = options;
    let { url } = options;
    for (let hops = 0; ; hops++) {
      const response = await request(withoutUser(url), {
        dispatcher: this.#dispatcher,
        method,
        headers: headersOf(headers, authorization),
        body,
        signal,
      }).catch((error: unknown) => {
        throw hostError(error, signal);
      });
      // An abort after the last read would otherwise be an error without a listener, and end the
      // process.
      response.body.on('error', () => undefined);
      const { statusCode: status } = response;
      if (!redirects.has(status))
        return { status, headers: response.headers, body: response.body, url };
      response.body.destroy();
      const { location } = response.headers;
      // A body that was sent can't be sent again.
      if (hops === maxRedirects || method !== 'GET') throw new GitHostError('redirect', { status });
      url = redirected(url, typeof location === 'string' ? location : undefined, options, status);
    }
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }

  async #sendPersistently(options: GitRequest) {
    try {
      return await this.#sendOnce(options);
    } catch (error) {
      if (!staleConnection.has(systemCodeOf(error) ?? '') || options.signal.aborted)
        throw hostError(error, options.signal);
    }
    try {
      return await this.#sendOnce(options);
    } catch (error) {
      throw hostError(error, options.signal);
    }
  }

  async #sendOnce({ method, url, headers, body, authorization, signal, maxBodyBytes }: GitRequest) {
    const response = await request(withoutUser(url), {
      dispatcher: this.#dispatcher,
      method,
      headers: headersOf(headers, authorization),
      body: body ?? null,
      signal,
    });
    const { statusCode: status, headers: answered } = response;
    const [contentType, location] = [answered['content-type'], answered['location']];
    const limit = status === 200 ? maxBodyBytes : 0;
    const content = await readBounded(response.body, limit);
    return {
      status,
      contentType: typeof contentType === 'string' ? contentType : '',
      location: typeof location === 'string' ? location : undefined,
      url,
      body: content,
      isTruncated: content.length >= limit,
    };
  }
}

const headersOf = (
  headers: GitRequest['headers'],
  authorization: string | undefined,
): Record<string, string> => ({
  accept: '*/*',
  'user-agent': userAgent,
  ...headers,
  ...(authorization === undefined ? {} : { authorization }),
});

function redirected(
  from: URL,
  location: string | undefined,
  { ending, within }: Pick<GitRequest, 'ending' | 'within'>,
  status: number,
): URL {
  const next =
    location !== undefined && URL.canParse(location, from.href)
      ? new URL(location, from)
      : undefined;
  if (next?.pathname.endsWith(ending) !== true || !isBelow(next, within))
    throw new GitHostError('redirect', { status });
  return next;
}

/** Whether `url` has the origin of `base`, and a path below the path of `base`. */
const isBelow = (url: URL, base: URL): boolean =>
  url.origin === base.origin &&
  url.username === '' &&
  url.pathname.startsWith(`${base.pathname.replace(/\/+$/, '')}/`);

function withoutUser(url: URL): URL {
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  return plain;
}

/** Leaving the loop destroys the body, and with it the connection: the rest is not read. */
async function readBounded(
  body: Dispatcher.ResponseData['body'],
  maxBytes: number,
): Promise<Buffer> {
  if (maxBytes === 0) {
    // A short body is read, so that the connection can be used again.
    await body.dump({ limit: 16_384 });
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

function hostError(error: unknown, signal: AbortSignal): GitHostError {
  if (signal.aborted) return new GitHostError('timeout', { cause: error });
  const code = systemCodeOf(error) ?? '';
  return new GitHostError(/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'connection', { cause: error });
}
