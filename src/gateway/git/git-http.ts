import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher } from 'undici';

export interface GitRequest {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  /** Where redirects may lead: nowhere but below this URL, */
  readonly within: URL;
  /** and to what ends like this, as git has it too. Else to a page for people, which says nothing. */
  readonly ending: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Of the Authorization header. */
  readonly authorization?: string | undefined;
  readonly signal: AbortSignal;
  /** Of an answer; the rest is not read. */
  readonly maxBodyBytes: number;
}

export interface GitAnswer {
  readonly status: number;
  readonly contentType: string;
  /** As much as was read. */
  readonly body: Buffer;
  /** There was more. */
  readonly isTruncated: boolean;
  /** Where it came from, after redirects. */
  readonly url: URL;
}

export interface GitStreamRequest extends Omit<GitRequest, 'body' | 'maxBodyBytes'> {
  /** Sent as it comes. */
  readonly body?: Readable;
}

export interface GitStream {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** To be read, or destroyed, in any case. */
  readonly body: Readable;
  /** Where it comes from, after redirects. */
  readonly url: URL;
}

/** What happened in one word, and nothing that would say where the host is. */
export class GitHostError extends Error {
  override readonly name = 'GitHostError';
  readonly reason: string;
  /** When it has answered after all. */
  readonly status: number | undefined;

  /** There was not even a connection. */
  get isUnreachable(): boolean {
    return notConnected.has(this.reason);
  }

  constructor(reason: string, { status, ...options }: ErrorOptions & { readonly status?: number } = {}) {
    super(`A git host can not be asked: ${reason}.`, options);
    this.reason = reason;
    this.status = status;
  }
}

export interface GitHttpOptions {
  /** To one host at once; further requests wait. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
}

const maxRedirects = 3;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Of attempts to connect: nothing was sent, and another question would fare no better. */
const notConnected: ReadonlySet<string> = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ETIMEDOUT',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
/** A pooled connection that the host closed in the same moment. */
const staleConnection: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** Hosts tell git apart from browsers by this. */
const userAgent = 'git/2 (conversation-operator)';

/** Bounded requests to git hosts. Credentials and questions go nowhere but below the base URL that is configured for a host. */
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

  /** Any answer; throws `GitHostError` where there is none. */
  async send(options: GitRequest): Promise<GitAnswer> {
    let { url } = options;
    for (let hops = 0; ; hops++) {
      const { location, ...answer } = await this.#sendPersistently({ ...options, url });
      const { status } = answer;
      if (!redirects.has(status)) return answer;
      if (hops === maxRedirects || options.method !== 'GET') throw new GitHostError('redirect', { status });
      url = redirected(url, location, options, status);
    }
  }

  /** Any answer whose body is still to come; what it takes the caller bounds by the signal. Throws `GitHostError` where there is none. */
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
      // An error of the signal has to find somebody, also when nobody reads any more.
      response.body.on('error', () => undefined);
      const { statusCode: status } = response;
      if (!redirects.has(status)) return { status, headers: response.headers, body: response.body, url };
      response.body.destroy();
      const { location } = response.headers;
      // What was sent can't be sent again.
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
      if (!staleConnection.has(codeOf(error)) || options.signal.aborted) throw hostError(error, options.signal);
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

const headersOf = (headers: GitRequest['headers'], authorization: string | undefined): Record<string, string> => ({
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
  const next = location !== undefined && URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (next?.pathname.endsWith(ending) !== true || !isBelow(next, within)) throw new GitHostError('redirect', { status });
  return next;
}

/** Of the same origin, and not above the path. */
const isBelow = (url: URL, base: URL): boolean =>
  url.origin === base.origin && url.username === '' && url.pathname.startsWith(`${base.pathname.replace(/\/+$/, '')}/`);

function withoutUser(url: URL): URL {
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  return plain;
}

/** Leaving the loop destroys the body, and with it the connection: the rest is not read. */
async function readBounded(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<Buffer> {
  if (maxBytes === 0) {
    // Short ones are read, so that the connection can be used again.
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

const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string' ? error.code : '';

function hostError(error: unknown, signal: AbortSignal): GitHostError {
  if (signal.aborted) return new GitHostError('timeout', { cause: error });
  const code = codeOf(error);
  return new GitHostError(/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'connection', { cause: error });
}
