import type { Readable } from 'node:stream';
import { Agent, request, type Dispatcher } from 'undici';
import type { z } from 'zod';
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
}

export interface AgentRequest<T> extends Sending {
  readonly answer: z.ZodType<T>;
  readonly maxBodyBytes?: number;
  /** What must not come back in the text of an error. */
  readonly secrets?: readonly string[];
}

export interface AgentAnswer<T> {
  readonly status: number;
  readonly body: T;
  /** The agent's own clock; undefined when it does not say. */
  readonly dateMs: number | undefined;
}

const defaultMaxBodyBytes = 1024 * 1024;
const maxDetailLength = 512;
/** Of what an error says, before it is cleaned and cut. */
const maxLookedAt = 8192;

/** Errors that a connection attempt ends with, before anything was sent. */
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

/** The agent closes idle connections after 5.0 s. A socket kept longer would lose the request that reuses it. */
export const defaultKeepAliveMs = 3000;

export interface AgentHttpOptions {
  readonly connectTimeoutMs: number;
  /** Milliseconds that an idle connection is kept; `defaultKeepAliveMs` by default. */
  readonly keepAliveMs?: number | undefined;
}

/** Calls to agents over pooled connections. Redirects are not followed: an agent could send the operator's requests anywhere. */
export class AgentHttp {
  readonly #dispatcher: Dispatcher;

  constructor({ connectTimeoutMs, keepAliveMs = defaultKeepAliveMs }: AgentHttpOptions) {
    this.#dispatcher = new Agent({
      connect: { timeout: connectTimeoutMs },
      connections: 32,
      keepAliveTimeout: keepAliveMs,
      // Whatever the agent says of itself.
      keepAliveMaxTimeout: keepAliveMs,
      // One deadline for the whole call, see below; these run on timers of their own.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    });
  }

  /** The validated body of a 2xx answer; everything else is an `AgentError`. */
  async call<T>(baseUrl: string, options: AgentRequest<T>): Promise<AgentAnswer<T>> {
    try {
      return await this.#callOnce(baseUrl, options);
    } catch (error) {
      // A pooled socket that the agent closed in the same moment: for a read, a second attempt does no harm.
      const again = options.method === 'GET' && error instanceof AgentError && error.code === 'connection-lost';
      if (!again) throw error;
      return await this.#callOnce(baseUrl, options);
    }
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }

  /** The body of a 2xx answer with JSON, as it comes; the deadline is for all of it. Who takes it reads or destroys it. */
  async open(baseUrl: string, options: AgentReading): Promise<Readable> {
    const { response, deadline } = await this.#send(baseUrl, { ...options, method: 'GET' });
    try {
      const { statusCode: status, headers, body } = response;
      if (status < 200 || status > 299) throw errorOf(status, await readBounded(body, defaultMaxBodyBytes));
      if (!String(headers['content-type']).startsWith('application/json')) {
        // It ends with an error then, which is nobody's.
        body.on('error', () => undefined).destroy();
        throw new AgentError('malformed', 'The agent answered with something unexpected.', { status });
      }
      return body;
    } catch (error) {
      throw failureOf(error, options, deadline);
    }
  }

  async #send(baseUrl: string, options: Sending) {
    const url = new URL(options.path, baseUrl);
    for (const [name, value] of Object.entries(options.query ?? {})) url.searchParams.set(name, String(value));
    const deadline = AbortSignal.timeout(options.timeoutMs);
    const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
    try {
      const response = await request(url, {
        dispatcher: this.#dispatcher,
        method: options.method,
        headers: {
          accept: 'application/json',
          ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...options.headers,
        },
        body: options.body === undefined ? null : JSON.stringify(options.body),
        signal,
      });
      return { response, deadline };
    } catch (error) {
      throw failureOf(error, options, deadline);
    }
  }

  async #callOnce<T>(baseUrl: string, options: AgentRequest<T>): Promise<AgentAnswer<T>> {
    const { response, deadline } = await this.#send(baseUrl, options);
    try {
      const text = await readBounded(response.body, options.maxBodyBytes ?? defaultMaxBodyBytes);
      const status = response.statusCode;
      if (status < 200 || status > 299) throw errorOf(status, text, options.secrets);
      const parsed = options.answer.safeParse(parseJson(text));
      if (!parsed.success) {
        // Not all that is wrong with it: that may be longer than the answer.
        const [issue] = parsed.error.issues;
        const cause = new Error(`${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`.slice(0, maxDetailLength));
        throw new AgentError('malformed', 'The agent answered with something unexpected.', { status, cause });
      }
      return { status, body: parsed.data, dateMs: dateOf(response.headers['date']) };
    } catch (error) {
      throw failureOf(error, options, deadline);
    }
  }
}

function failureOf(error: unknown, { signal, timeoutMs }: Pick<AgentReading, 'signal' | 'timeoutMs'>, deadline: AbortSignal): AgentError {
  if (error instanceof AgentError) return error;
  if (signal?.aborted === true) return new AgentError('aborted', 'The call to the agent was given up.', { cause: error });
  if (deadline.aborted) return new AgentError('timeout', `The agent did not answer within ${timeoutMs / 1000} s.`, { cause: error });
  if (notConnected.has(systemCodeOf(error))) return new AgentError('unreachable', 'The agent can not be reached.', { cause: error });
  return new AgentError('connection-lost', 'The connection to the agent broke.', { cause: error });
}

async function readBounded(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop destroys the body, and with it the connection: the rest is not read.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw new AgentError('malformed', `The agent's answer is larger than ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Undefined for what is no JSON: no schema accepts it. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const codesByStatus: Readonly<Record<number, AgentErrorCode>> = { 401: 'unauthorized', 403: 'unauthorized', 404: 'not-found', 429: 'busy' };

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
      : // Without `input`: it echoes what was sent, secrets included.
        body?.detail?.map(({ loc, msg }) => `${(loc ?? []).join('.')}: ${msg ?? 'invalid'}`).join('; ');
  // Above 499 `detail` is always the same three words, and `exception` what happened.
  const words = status >= 500 ? (body?.exception ?? detail) : detail;
  const said = words == null ? undefined : plainText(withoutSecrets(withoutInput(words), secrets), maxDetailLength);
  const code = codeOf(status, said ?? '');
  return new AgentError(
    code,
    fallbackTexts[code] ?? (said === undefined ? `The agent answered ${status}.` : `The agent answered ${status}: ${said}`),
    {
      status,
    },
  );
}

/** pydantic's own words end with the value that it refuses, in clear: `… [type=value_error, input_value={'api_key': 'sk-…'}, …]`. */
const withoutInput = (text: string): string =>
  text
    .slice(0, maxLookedAt)
    .replaceAll(/\[type=[^]*?(?:input_type=\w+\]|$)/g, '')
    .replace(/input_value=[^]*/, '')
    .trim();

function codeOf(status: number, said: string): AgentErrorCode {
  if (status === 503 && said.includes('deferred-init')) return 'dormant';
  const code = codesByStatus[status];
  if (code !== undefined) return code;
  // Redirects as well: no path of the protocol has one.
  return status < 500 ? 'refused' : 'failed';
}

/** undici's own code or the system's; where several addresses were tried, the AggregateError has that of the first. */
function systemCodeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function dateOf(header: string | string[] | undefined): number | undefined {
  const parsed = typeof header === 'string' ? Date.parse(header) : NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
