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
  /** The text of a file to upload, in place of a body of JSON. */
  readonly file?: string;
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

/** An agent closes idle connections after so long. */
const agentKeepsMs = 5000;

/**
 * How long idle connections are kept, in milliseconds. What is sent in the moment in which the agent closes one is lost. A read is
 * repeated then; a write may have been heard, so that it stays well away from that moment.
 */
export interface KeepAlive {
  /** Longer than the 4 s between two looks at a run: to connect costs more than to ask. */
  readonly readsMs: number;
  readonly writesMs: number;
}

export const defaultKeepAlive: KeepAlive = { readsMs: 4500, writesMs: 3000 };

export interface AgentHttpOptions {
  readonly connectTimeoutMs: number;
  /** `defaultKeepAlive` by default. */
  readonly keepAlive?: KeepAlive | undefined;
}

/** Calls to agents over pooled connections. Redirects are not followed: an agent could send the operator's requests anywhere. */
export class AgentHttp {
  readonly #reads: Dispatcher;
  readonly #writes: Dispatcher;

  constructor({ connectTimeoutMs, keepAlive = defaultKeepAlive }: AgentHttpOptions) {
    this.#reads = pool(connectTimeoutMs, keepAlive.readsMs);
    this.#writes = pool(connectTimeoutMs, keepAlive.writesMs);
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

  async close(): Promise<void> {
    await Promise.all([this.#reads.destroy(), this.#writes.destroy()]);
  }

  /** The body of a 2xx answer with JSON, as it comes; the deadline is for all of it. Who takes it reads or destroys it. */
  async open(baseUrl: string, options: AgentReading): Promise<Readable> {
    const deadline = new Deadline(options.timeoutMs, options.signal);
    try {
      const { statusCode: status, headers, body } = await this.#send(baseUrl, { ...options, method: 'GET' }, deadline);
      body.once('close', () => deadline.end());
      if (status < 200 || status > 299) throw errorOf(status, await readBounded(body, defaultMaxBodyBytes));
      if (!String(headers['content-type']).startsWith('application/json')) {
        // It ends with an error then, which is nobody's.
        body.on('error', () => undefined).destroy();
        throw new AgentError('malformed', 'The agent answered with something unexpected.', { status });
      }
      return body;
    } catch (error) {
      deadline.end();
      throw failureOf(error, options, deadline);
    }
  }

  #send(baseUrl: string, options: Sending, { signal }: Deadline): Promise<Dispatcher.ResponseData> {
    const url = new URL(options.path, baseUrl);
    for (const [name, value] of Object.entries(options.query ?? {})) url.searchParams.set(name, String(value));
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
        // Not all that is wrong with it: that may be longer than the answer.
        const [issue] = parsed.error.issues;
        const cause = new Error(`${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`.slice(0, maxDetailLength));
        throw new AgentError('malformed', 'The agent answered with something unexpected.', { status, cause });
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
    // Whatever the agent says of itself.
    keepAliveMaxTimeout: keepAliveMs,
    // Off what the agent says, if that is shorter.
    keepAliveTimeoutThreshold: agentKeepsMs - keepAliveMs,
    // One deadline for the whole call, see below; these run on timers of their own.
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

function failureOf(error: unknown, { signal, timeoutMs }: Pick<AgentReading, 'signal' | 'timeoutMs'>, deadline: Deadline): AgentError {
  if (error instanceof AgentError) return error;
  if (signal?.aborted === true) return new AgentError('aborted', 'The call to the agent was given up.', { cause: error });
  if (deadline.hasPassed) return new AgentError('timeout', `The agent did not answer within ${timeoutMs / 1000} s.`, { cause: error });
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
