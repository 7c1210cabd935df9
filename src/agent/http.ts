import type { Readable } from 'node:stream';
import { isDeeperThan } from '@conversation-operator/base/json-text';
import {
  BoundedClient,
  type BoundedCall,
  type KeepAlive,
  CallError,
} from '@conversation-operator/http/client/bounded-client';
import { FormData } from 'undici';
import type { z } from 'zod';
import { AgentError, type AgentErrorCode } from './errors.ts';
import { parseExactly } from './exact-json.ts';
import { plainText } from '../resources/plain-text.ts';
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
  /** Text of a file that the client uploads. Such a request has no JSON body. */
  readonly file?: string;
  /** Whether the client may send the request twice: see `BoundedCall`. */
  readonly repeatable?: boolean;
}

export interface AgentRequest<T> extends Sending {
  readonly answer: z.ZodType<T>;
  readonly maxBodyBytes?: number;
  /** Whether to parse the answer by `parseExactly`. */
  readonly hasExactNumbers?: boolean;
  /** Secrets that the client removes from the messages of errors. */
  readonly secrets?: readonly string[];
}

export interface AgentAnswer<T> {
  readonly status: number;
  readonly body: T;
  /** `Date` header of the answer, in ms since 1970; undefined if the answer has none. */
  readonly dateMs: number | undefined;
}

const defaultMaxBodyBytes = 1024 * 1024;
const maxDetailLength = 512;
/** Maximum bytes of an error body that the client reads. */
const maxSearchedLength = 8192;

/** Default idle times. `readsMs` exceeds the 4 s between polls, so that polls reuse connections. */
export const defaultKeepAlive: KeepAlive = { readsMs: 4500, writesMs: 3000 };

export interface AgentHttpOptions {
  readonly connectTimeoutMs: number;
  /** Default: `defaultKeepAlive`. */
  readonly keepAlive?: KeepAlive | undefined;
}

/** HTTP calls to agents. The client follows no redirect, because an agent is not trusted. */
export class AgentHttp {
  readonly #client: BoundedClient;

  constructor({ connectTimeoutMs, keepAlive = defaultKeepAlive }: AgentHttpOptions) {
    this.#client = new BoundedClient({ connectTimeoutMs, keepAlive });
  }

  /** Returns the validated body of a 2xx answer. Throws an `AgentError` for any other result. */
  async call<T>(baseUrl: string, options: AgentRequest<T>): Promise<AgentAnswer<T>> {
    const { maxBodyBytes = defaultMaxBodyBytes, secrets, answer, timeoutMs } = options;
    const { hasExactNumbers = false } = options;
    const { status, headers, text } = await this.#client
      .send(callOf(baseUrl, options), maxBodyBytes)
      .catch((error: unknown) => {
        throw agentErrorOf(error, { timeoutMs, maxBodyBytes });
      });
    if (!isSuccess(status)) throw errorOf(status, text, secrets);
    const json = parseJson(text, hasExactNumbers ? parseExactly : JSON.parse);
    // JSON.stringify, which later gets parts of the value, fails if they are nested too deeply.
    if (isDeeperThan(json, maxDepth))
      throw new AgentError('malformed', `The agent's answer has more than ${maxDepth} levels.`, {
        status,
      });
    const parsed = answer.safeParse(json);
    if (!parsed.success) {
      // The error has only the first issue, because all issues may be longer than the answer.
      const [issue] = parsed.error.issues;
      const why = `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`;
      throw unexpected(status, new Error(why.slice(0, maxDetailLength)));
    }
    return { status, body: parsed.data, dateMs: dateOf(headers['date']) };
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  /** Stream of a 2xx answer, open until the deadline. The caller reads or destroys the stream. */
  async open(baseUrl: string, options: AgentReading): Promise<Readable> {
    try {
      const { status, headers, body, text } = await this.#client.open(
        callOf(baseUrl, { ...options, method: 'GET' }),
      );
      if (!isSuccess(status)) throw errorOf(status, await text(defaultMaxBodyBytes));
      if (!String(headers['content-type']).startsWith('application/json')) {
        // After an abort the stream emits an error, which no caller handles.
        body.on('error', () => undefined).destroy();
        throw unexpected(status);
      }
      return body;
    } catch (error) {
      throw agentErrorOf(error, {
        timeoutMs: options.timeoutMs,
        maxBodyBytes: defaultMaxBodyBytes,
      });
    }
  }

  /** Returns the body of a 2xx answer of any type. Throws an `AgentError` for any other result. */
  async bytes(baseUrl: string, options: AgentReading, maxBodyBytes: number): Promise<Buffer> {
    try {
      const call = callOf(baseUrl, { ...options, method: 'GET' });
      const { status, bytes, text } = await this.#client.open(call);
      if (!isSuccess(status)) throw errorOf(status, await text(defaultMaxBodyBytes));
      return await bytes(maxBodyBytes);
    } catch (error) {
      throw agentErrorOf(error, { timeoutMs: options.timeoutMs, maxBodyBytes });
    }
  }
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

const unexpected = (status: number, cause?: Error): AgentError =>
  new AgentError('malformed', 'The agent answered with something unexpected.', { status, cause });

function callOf(
  baseUrl: string,
  { path, query = {}, headers, body, file, method, repeatable, timeoutMs, signal }: Sending,
): BoundedCall {
  const url = new URL(path, baseUrl);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  return {
    method,
    url,
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: file === undefined ? jsonOf(body) : formWith(file),
    repeatable,
    timeoutMs,
    signal,
  };
}

const jsonOf = (body: unknown): string | null => (body === undefined ? null : JSON.stringify(body));

function formWith(file: string): FormData {
  const form = new FormData();
  form.set('file', new Blob([file]), 'file');
  return form;
}

/** The `AgentError` for an error of a call. An error of an unknown class is returned unchanged. */
function agentErrorOf(
  error: unknown,
  { timeoutMs, maxBodyBytes }: { readonly timeoutMs: number; readonly maxBodyBytes: number },
): unknown {
  if (!(error instanceof CallError)) return error;
  const failed = (code: AgentErrorCode, message: string) =>
    new AgentError(code, message, { cause: error.cause });
  switch (error.fault) {
    case 'unreachable':
      return failed('unreachable', 'The agent can not be reached.');
    case 'timeout':
      return failed('timeout', `The agent did not answer within ${timeoutMs / 1000} s.`);
    case 'aborted':
      return failed('aborted', 'The call to the agent was given up.');
    case 'connection-lost':
      return failed('connection-lost', 'The connection to the agent broke.');
    case 'too-large':
      return failed('malformed', `The agent's answer is larger than ${maxBodyBytes} bytes.`);
    case 'too-fragmented':
      return failed('malformed', "The agent's answer came in too many pieces.");
  }
}

/** Undefined for invalid JSON. No schema accepts undefined. */
function parseJson(text: string, parse: (text: string) => unknown = JSON.parse): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/** Maximum levels of lists and objects in an answer. */
const maxDepth = 256;

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
      : // The text leaves out `input`, which repeats the request with its secrets.
        body?.detail
          ?.map(({ loc, msg }) => `${(loc ?? []).join('.')}: ${msg ?? 'invalid'}`)
          .join('; ');
  // The `detail` of a 5xx answer is always the same text. The cause is in `exception`.
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
    { status },
  );
}

/**
 * Removes the rejected value, which may be a secret, from the end of a pydantic message:
 * `… [type=value_error, input_value={'api_key': 'sk-…'}, …]`.
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
  // A redirect (3xx) is an error as well: no path of the protocol redirects.
  return status < 500 ? 'refused' : 'failed';
}

function dateOf(header: string | string[] | undefined): number | undefined {
  const parsed = typeof header === 'string' ? Date.parse(header) : NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
