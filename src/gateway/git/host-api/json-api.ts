import { request as send, type Dispatcher } from 'undici';
import type { z } from 'zod';
import { isClosedConnection } from '@conversation-operator/base/system-code';
import type { Outward } from '@conversation-operator/outward/outward';
import { proxyErrorIn } from '@conversation-operator/outward/proxy-error';
import { plainText } from '../../../resources/plain-text.ts';
import { HostApiError, type ApiTarget, type HostApiErrorCode } from './host-api.ts';

export interface JsonApiOptions {
  /** Requests and tokens are only sent to URLs below this one. */
  readonly baseUrl: URL;
  readonly dispatcher: Dispatcher;
  readonly authorization: (token: string) => string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Maximum duration of one request with its redirects. Default: 15 s. */
  readonly timeoutMs?: number;
  /** Maximum size of a response. Default: 4 MiB. */
  readonly maxBodyBytes?: number;
}

/** A response with which the host rejects the values of a request. */
export interface Refusal {
  readonly status: number;
  /** The texts of the response, of limited length and without control characters. */
  readonly text: string;
}

export interface JsonRequest {
  /** Begins with a slash. Each segment is encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number>>;
  /** A request with a body is a POST, which is sent only once. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Returns the error code for a rejection. Default: invalid. */
  readonly refusedAs?: (refusal: Refusal) => HostApiErrorCode;
}

export type Access = Pick<ApiTarget, 'token' | 'signal' | 'charge'>;

export interface JsonApi {
  /** Returns the response, parsed by the schema. */
  ask<S extends z.ZodType>(access: Access, request: JsonRequest, schema: S): Promise<z.output<S>>;
  /** Like `ask`, with the total number of items if the host reports it as `x-total-count`. */
  list<S extends z.ZodType>(
    access: Access,
    request: JsonRequest,
    schema: S,
  ): Promise<{ readonly items: z.output<S>; readonly total: number | undefined }>;
}

export const newApiDispatcher = (outward: Outward): Dispatcher =>
  outward.pool({ connections: 16, connectTimeoutMs: 10_000 });

const defaultTimeoutMs = 15_000;
const defaultMaxBodyBytes = 4 * 1024 * 1024;
const maxRedirects = 2;

/**
 * A client for the JSON API of one git host. Errors contain no token, no URL of the host, and at
 * most 300 characters of the host's texts.
 */
export function newJsonApi(options: JsonApiOptions): JsonApi {
  const answerOf = async (access: Access, request: JsonRequest): Promise<Answer> => {
    access.signal.throwIfAborted();
    access.charge?.();
    const timeout = AbortSignal.timeout(options.timeoutMs ?? defaultTimeoutMs);
    const signal = AbortSignal.any([access.signal, timeout]);
    try {
      const answer = await following(options, { ...access, signal }, request);
      if (isGood(answer.status)) return answer;
      throw errorOf(answer, access, request);
    } catch (error) {
      access.signal.throwIfAborted();
      throw error instanceof HostApiError
        ? error
        : unavailable(timeout.aborted ? 'does not answer in time' : silenceOf(error), error);
    }
  };
  return {
    ask: async (access, request, schema) => read(await answerOf(access, request), schema),
    list: async (access, request, schema) => {
      const answer = await answerOf(access, request);
      return { items: read(answer, schema), total: countIn(answer.headers['x-total-count']) };
    },
  };
}

/** The reason why a request got no response, as the predicate of a sentence. */
export function silenceOf(error: unknown): string {
  const proxyError = proxyErrorIn(error);
  return proxyError === undefined
    ? 'does not answer'
    : `is behind a proxy that has failed: ${proxyError.message}`;
}

interface Answer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  readonly body: Buffer;
}

const isGood = (status: number): boolean => status >= 200 && status < 300;

const unavailable = (what: string, cause?: unknown): HostApiError =>
  new HostApiError(
    'unavailable',
    `The API of the git host ${what}`,
    cause === undefined ? {} : { cause },
  );

/** Sends the request, and follows the redirects of a GET. */
async function following(
  options: JsonApiOptions,
  access: Access,
  request: JsonRequest,
): Promise<Answer> {
  let url = urlOf(options.baseUrl, request);
  for (let hops = 0; ; hops++) {
    const answer = await sendPersistently(options, access, request, url);
    if (!redirects.has(answer.status)) return answer;
    // A redirected POST would act on another URL than the requested one.
    if (request.body !== undefined)
      throw new HostApiError(
        'not-found',
        'The API of the git host redirects: the repository may have another name',
      );
    const next = redirected(url, answer.headers['location'], options.baseUrl);
    if (next === undefined || hops === maxRedirects)
      throw unavailable('redirects to an address that is not followed');
    url = next;
  }
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

function urlOf(baseUrl: URL, { path, query = {} }: JsonRequest): URL {
  const url = new URL(`${baseUrl.pathname.replace(/\/+$/, '')}${path}`, baseUrl);
  // A segment `..` in the name of a branch would change the path.
  if (!url.pathname.endsWith(path))
    throw new HostApiError('not-found', 'The API of the git host has no address for these names');
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  return url;
}

/** The target of a redirect; undefined if it is not below the base URL of the API. */
function redirected(from: URL, location: string | string[] | undefined, base: URL) {
  if (typeof location !== 'string' || !URL.canParse(location, from.href)) return undefined;
  const url = new URL(location, from);
  const isBelow =
    url.origin === base.origin &&
    url.username === '' &&
    url.password === '' &&
    url.pathname.startsWith(`${base.pathname.replace(/\/+$/, '')}/`);
  return isBelow ? url : undefined;
}

/** Sends a GET a second time if the host had closed the connection. */
const sendPersistently: typeof sendOnce = (options, access, request, url) =>
  sendOnce(options, access, request, url).catch((error: unknown) => {
    if (request.body !== undefined || !isClosedConnection(error) || access.signal.aborted)
      throw error;
    return sendOnce(options, access, request, url);
  });

async function sendOnce(
  { dispatcher, authorization, headers, maxBodyBytes = defaultMaxBodyBytes }: JsonApiOptions,
  { token, signal }: Access,
  { body }: JsonRequest,
  url: URL,
): Promise<Answer> {
  const response = await send(url, {
    dispatcher,
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      accept: 'application/json',
      'user-agent': 'conversation-operator',
      ...headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      authorization: authorization(token),
    },
    body: body === undefined ? null : JSON.stringify(body),
    signal,
  });
  return {
    status: response.statusCode,
    headers: response.headers,
    body: await bodyOf(response.body, maxBodyBytes),
  };
}

/** Throws if the body is too large. The connection is then closed, because the loop ends early. */
async function bodyOf(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw unavailable(`gives an answer of more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function jsonIn({ body }: Answer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function read<S extends z.ZodType>(answer: Answer, schema: S): z.output<S> {
  const result = schema.safeParse(jsonIn(answer));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const field = issue === undefined ? '' : plainText(issue.path.join('.'), 100);
  throw unavailable(
    field === '' ? 'gives an answer of another form' : `gives an answer with a wrong ${field}`,
  );
}

function errorOf(answer: Answer, { token }: Access, { refusedAs }: JsonRequest): HostApiError {
  const { status } = answer;
  const text = textsOf(jsonIn(answer), token);
  const code = codeOf(answer) ?? refusedAs?.({ status, text }) ?? 'invalid';
  return new HostApiError(
    code,
    `The API of the git host answers ${status}${text === '' ? '' : `: ${text}`}`,
  );
}

/** The error code of a status; undefined if its meaning depends on the request. */
function codeOf({ status, headers }: Answer): HostApiErrorCode | undefined {
  const isLimited =
    status === 429 ||
    (status === 403 &&
      (headers['x-ratelimit-remaining'] === '0' || headers['retry-after'] !== undefined));
  if (isLimited) return 'busy';
  // 423: an archived repository of Gitea. 451: a repository blocked for legal reasons.
  if ([401, 403, 423, 451].includes(status)) return 'denied';
  if (status === 404 || status === 410) return 'not-found';
  return status >= 400 && status < 500 ? undefined : 'unavailable';
}

const maxTextCharacters = 300;
/** Longer than any token, so that no token is truncated before it is removed. */
const maxUncheckedCharacters = maxTextCharacters + 16_384;
const maxTexts = 10;

/** The error texts of a host, on one line and without the token. */
const textsOf = (body: unknown, token: string): string =>
  plainText(textsIn(body, 0).slice(0, maxTexts).join('; '), maxUncheckedCharacters)
    .replaceAll(token === '' ? '\0' : token, '…')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, maxTextCharacters)
    .toWellFormed();

const textFields = ['message', 'error', 'errors'] as const;

/** GitHub reports errors as a list of objects with a message, GitLab as texts by field name. */
function textsIn(value: unknown, depth: number): readonly string[] {
  if (typeof value === 'string') return [value.slice(0, maxUncheckedCharacters)];
  if (typeof value !== 'object' || value === null || depth > 3) return [];
  if (Array.isArray(value))
    return value.slice(0, maxTexts).flatMap((item) => textsIn(item, depth + 1));
  const entries: readonly [string, unknown][] = Object.entries(value);
  const isKnown = (name: string) => textFields.some((field) => field === name);
  const known = entries.filter(([name]) => isKnown(name));
  return (depth === 0 || known.length > 0 ? known : entries)
    .slice(0, maxTexts)
    .flatMap(([, item]) => textsIn(item, depth + 1));
}

function countIn(header: string | string[] | undefined): number | undefined {
  const count = typeof header === 'string' && /^\d{1,15}$/.test(header) ? Number(header) : -1;
  return count < 0 ? undefined : count;
}
