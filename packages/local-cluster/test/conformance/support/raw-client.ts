import { Agent, request, type Dispatcher } from 'undici';
import type { Connection } from '../../../../kube/src/transport.ts';
import type { Document } from './document.ts';
import { Watch } from './watch.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
export type Query = Readonly<Record<string, string | number | boolean>>;

export interface RequestOptions {
  readonly query?: Query;
  /** A string is sent as it is. */
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
}

export interface Reply {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** An empty document where the answer is no JSON. */
  readonly body: Document;
  readonly text: string;
  readonly warnings: readonly string[];
}

/** Requests as they are written, answers as they come: nothing repeated, nothing interpreted. */
export class RawClient {
  readonly #connection: Connection;
  readonly #agent: Agent;

  constructor(connection: Connection) {
    this.#connection = connection;
    const { ca, cert, key, serverName, insecure } = connection;
    this.#agent = new Agent({
      connections: 32,
      allowH2: false,
      connect: {
        rejectUnauthorized: insecure !== true,
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined ? {} : { cert }),
        ...(key === undefined ? {} : { key }),
        ...(serverName === undefined ? {} : { servername: serverName }),
      },
    });
  }

  async send(method: Method, path: string, options: RequestOptions = {}): Promise<Reply> {
    const { statusCode, headers, body } = await this.#dispatch(method, path, options);
    const text = await body.text();
    return {
      status: statusCode,
      headers,
      body: parse(text),
      text,
      warnings: warningsOf(headers['warning']),
    };
  }

  /** Resolves when the server has begun to answer. */
  async watch(path: string, query: Query = {}): Promise<Watch> {
    const ending = new AbortController();
    const { statusCode, body } = await this.#dispatch(
      'GET',
      path,
      { query: { watch: true, ...query } },
      ending.signal,
    );
    return new Watch(statusCode, body, ending);
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #dispatch(
    method: Method,
    path: string,
    options: RequestOptions,
    signal?: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const {
      query = {},
      body,
      contentType = 'application/json',
      accept = 'application/json',
    } = options;
    const url = new URL(this.#connection.server.replace(/\/$/, '') + path);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
    const { token } = this.#connection;
    const bearer = typeof token === 'function' ? await token() : token;
    return request(url, {
      method,
      dispatcher: this.#agent,
      headers: {
        accept,
        'user-agent': 'conformance/1',
        ...(body === undefined ? {} : { 'content-type': contentType }),
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }
}

function parse(text: string): Document {
  try {
    return JSON.parse(text) as Document;
  } catch {
    return {} as Document;
  }
}

/** `299 - "text", 299 - "text"` (RFC 7234 §5.5). */
function warningsOf(header: string | string[] | undefined): readonly string[] {
  const text = Array.isArray(header) ? header.join(', ') : (header ?? '');
  return [...text.matchAll(/299 - ("(?:[^"\\]|\\.)*")/g)].map(
    ([, quoted = '""']) => JSON.parse(quoted) as string,
  );
}
