import { systemCodeOf } from '@conversation-operator/kube/errors';
import type { Readable } from 'node:stream';
import { Agent, FormData, request, type Dispatcher } from 'undici';
import type { z } from 'zod';
import { limitChunks } from './chunk-limit.ts';
import { Deadline } from './deadline.ts';
import { AgentError, type AgentErrorCode } from './errors.ts';
import { plainText } from './plain-text.ts';
import { withoutSecrets } from './redaction.ts';
import { errorBodySchema } from './wire.ts';

export interface AgentReading {
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface Sending extends AgentReading {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly body?: unknown;
  /** Text of a file to upload instead of a JSON body. */
  readonly file?: string;
}

export interface AgentRequest<T> extends Sending {
  readonly answer: z.ZodType<T>;
  readonly maxBodyBytes?: number;
  /** Secrets that the client removes from error messages. */
  readonly secrets?: readonly string[];
}

export interface AgentAnswer<T> {
  readonly status: number;
  readonly body: T;
  /** Time of the agent's clock; undefined when the answer has no Date. */
  readonly dateMs: number | undefined;
}

const defaultMaxBodyBytes = 1024 * 1024;
const maxDetailLength = 512;
/** Maximum bytes of an error body that the client reads. */
const maxSearchedLength = 8192;

/** Errors of a connection attempt: no byte of the request was sent. */
const notConnected: ReadonlySet<string> = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** Default time after which an agent closes an idle connection. */
const agentKeepsMs = 5000;

/**
 * Maximum idle times of connections, in milliseconds. A request on a connection that the agent
 * closes in the same moment is lost. The client retries a read; the agent may have executed a
 * write, so that writes use only connections far from that moment.
 */
export interface KeepAlive {
  /**
   * Longer than the 4 s between two polls of a run, because a connection costs more than a poll.
   */
  readonly readsMs: number;
  readonly writesMs: number;
}

export const defaultKeepAlive: KeepAlive = { readsMs: 4500, writesMs: 3000 };

export interface AgentHttpOptions {
  readonly connectTimeoutMs: number;
  /** Default: `defaultKeepAlive`. */
  readonly keepAlive?: KeepAlive | undefined;
}

/**
 * Calls to agents over pooled connections. The client follows no redirect, because an agent could
 * redirect the operator anywhere.
 */
export class AgentHttp {
  readonly #reads: Dispatcher;
  readonly #writes: Dispatcher;

  constructor({ connectTimeoutMs, keepAlive = defaultKeepAlive }: AgentHttpOptions) {
    this.#reads = pool(connectTimeoutMs, keepAlive.readsMs);
    this.#writes = pool(connectTimeoutMs, keepAlive.writesMs);
  }

  /** Returns the validated body of a 2xx answer; throws an `AgentError` for any other result. */
  async call<T>(baseUrl: string, options: AgentRequest<T>): Promise<AgentAnswer<T>> {
    try {
      return await this.#callOnce(baseUrl, options);
    } catch (error) {
      // The agent closed the pooled connection in the same moment. A second attempt of a read is
      // safe.
      const again =
        options.method === 'GET' && error instanceof AgentError && error.code === 'connection-lost';
      if (!again) throw error;
      return await this.#callOnce(baseUrl, options);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#reads.destroy(), this.#writes.destroy()]);
  }

  /**
   * Returns the body of a 2xx answer with JSON as a stream; the deadline includes all of it. The
   * caller reads or destroys the stream.
   */
  async open(baseUrl: string, options: AgentReading): Promise<Readable> {
    const deadline = new Deadline(options.timeoutMs, options.signal);
    try {
      const {
        statusCode: status,
        headers,
        body,
      } = await this.#send(baseUrl, { ...options, method: 'GET' }, deadline);
      body.once('close', () => deadline.end());
      if (status < 200 || status > 299)
        throw errorOf(status, await readBounded(body, defaultMaxBodyBytes));
      if (!String(headers['content-type']).startsWith('application/json')) {
        // The abort makes the stream emit an error that no caller awaits.
        body.on('error', () => undefined).destroy();
        throw new AgentError('malformed', 'The agent answered with something unexpected.', {
          status,
        });
      }
      return body;
    } catch (error) {
      deadline.end();
      throw failureOf(error, options, deadline);
    }
  }

  #send(baseUrl: string, options: Sending, { signal }: Deadline): Promise<Dispatcher.ResponseData> {
    const url = new URL(options.path, baseUrl);
    for (const [name, value] of Object.entries(options.query ?? {}))
      url.searchParams.set(name, String(value));
    return request(url, {
      dispatcher: options.method === 'GET' ? this.#reads : this.#writes,
      method: options.method,
      headers: {
        accept: 'application/json',
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      body: bodyOf(options),
      signal,
    });
  }

  async #callOnce<T>(baseUrl: string, options: AgentRequest<T>): Promise<AgentAnswer<T>> {
    const deadline = new Deadline(options.timeoutMs, options.signal);
    try {
      const response = await this.#send(baseUrl, options, deadline);
      const text = await readBounded(response.body, options.maxBodyBytes ?? defaultMaxBodyBytes);
      const status = response.statusCode;
      if (status < 200 || status > 299) throw errorOf(status, text, options.secrets);
      const parsed = options.answer.safeParse(parseJson(text));
      if (!parsed.success) {
        // Only the first issue: all issues may be longer than the answer.
        const [issue] = parsed.error.issues;
        const cause = new Error(
          `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`.slice(
            0,
            maxDetailLength,
          ),
        );
        throw new AgentError('malformed', 'The agent answered with something unexpected.', {
          status,
          cause,
        });
      }
      return { status, body: parsed.data, dateMs: dateOf(response.headers['date']) };
    } catch (error) {
      throw failureOf(error, options, deadline);
    } finally {
      deadline.end();
    }
  }
}

function pool(connectTimeoutMs: number, keepAliveMs: number): Dispatcher {
  return new Agent({
    connect: { timeout: connectTimeoutMs },
    connections: 32,
    keepAliveTimeout: keepAliveMs,
    // An own limit, whatever `Keep-Alive` the agent sends.
    keepAliveMaxTimeout: keepAliveMs,
    // Margin below the `Keep-Alive` of the agent, if that is shorter.
    keepAliveTimeoutThreshold: agentKeepsMs - keepAliveMs,
    // The deadline of the whole call replaces undici's own time-outs.
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  }).compose(limitChunks);
}

function bodyOf({ body, file }: Sending): FormData | string | null {
  if (file === undefined) return body === undefined ? null : JSON.stringify(body);
  const form = new FormData();
  form.set('file', new Blob([file]), 'file');
  return form;
}

function failureOf(
  error: unknown,
  { signal, timeoutMs }: Pick<AgentReading, 'signal' | 'timeoutMs'>,
  deadline: Deadline,
): AgentError {
  if (error instanceof AgentError) return error;
  if (signal?.aborted === true)
    return new AgentError('aborted', 'The call to the agent was given up.', { cause: error });
  if (deadline.hasPassed)
    return new AgentError('timeout', `The agent did not answer within ${timeoutMs / 1000} s.`, {
      cause: error,
    });
  if (notConnected.has(systemCodeOf(error) ?? ''))
    return new AgentError('unreachable', 'The agent can not be reached.', { cause: error });
  return new AgentError('connection-lost', 'The connection to the agent broke.', { cause: error });
}

async function readBounded(
  body: Dispatcher.ResponseData['body'],
  maxBytes: number,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop destroys the body and the connection; the client does not read the remaining
  // bytes.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes)
      throw new AgentError('malformed', `The agent's answer is larger than ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Undefined for invalid JSON, which no schema accepts. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const codesByStatus: Readonly<Record<number, AgentErrorCode>> = {
  401: 'unauthorized',
  403: 'unauthorized',
  404: 'not-found',
  429: 'busy',
};

const fallbackTexts: Readonly<Partial<Record<AgentErrorCode, string>>> = {
  unauthorized: 'The agent does not accept the session key.',
  dormant: 'The agent waits for its keys.',
  busy: 'The agent has too much to do.',
};

function errorOf(status: number, text: string, secrets: readonly string[] = []): AgentError {
  const body = errorBodySchema.safeParse(parseJson(text)).data;
  const detail =
    typeof body?.detail === 'string'
      ? body.detail
      : // The text omits `input`, which echoes the request with its secrets.
        body?.detail
          ?.map(({ loc, msg }) => `${(loc ?? []).join('.')}: ${msg ?? 'invalid'}`)
          .join('; ');
  // For 5xx `detail` is a constant text, and `exception` has the cause.
  const reported = status >= 500 ? (body?.exception ?? detail) : detail;
  const said =
    reported == null
      ? undefined
      : plainText(withoutSecrets(withoutInput(reported), secrets), maxDetailLength);
  const code = codeOf(status, said ?? '');
  return new AgentError(
    code,
    fallbackTexts[code] ??
      (said === undefined
        ? `The agent answered ${status}.`
        : `The agent answered ${status}: ${said}`),
    {
      status,
    },
  );
}

/**
 * pydantic's messages end with the rejected value in clear: `… [type=value_error,
 * input_value={'api_key': 'sk-…'}, …]`.
 */
const withoutInput = (text: string): string =>
  text
    .slice(0, maxSearchedLength)
    .replaceAll(/\[type=[^]*?(?:input_type=\w+\]|$)/g, '')
    .replace(/input_value=[^]*/, '')
    .trim();

function codeOf(status: number, said: string): AgentErrorCode {
  if (status === 503 && said.includes('deferred-init')) return 'dormant';
  const code = codesByStatus[status];
  if (code !== undefined) return code;
  // Redirects are errors too: no path of the protocol has one.
  return status < 500 ? 'refused' : 'failed';
}

function dateOf(header: string | string[] | undefined): number | undefined {
  const parsed = typeof header === 'string' ? Date.parse(header) : NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
