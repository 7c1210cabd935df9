import { once } from 'node:events';
import { request, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';

/** Address and token of a conversation at the relay. */
export interface Access {
  readonly baseUrl: string;
  readonly token: string;
}

/** The four APIs as their clients call them. */
export const apis = {
  chat: {
    path: 'chat/completions',
    streamPath: 'chat/completions',
    body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
    streamed: { stream: true },
    place: 'authorization',
  },
  responses: {
    path: 'responses',
    streamPath: 'responses',
    body: { model: 'm', input: 'hi' },
    streamed: { stream: true },
    place: 'authorization',
  },
  messages: {
    path: 'v1/messages',
    streamPath: 'v1/messages',
    body: { model: 'm', max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] },
    streamed: { stream: true },
    place: 'x-api-key',
  },
  gemini: {
    path: 'v1beta/models/m:generateContent',
    streamPath: 'v1beta/models/m:streamGenerateContent?alt=sse',
    body: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
    streamed: {},
    place: 'x-goog-api-key',
  },
} as const;
export type ApiName = keyof typeof apis;
export const apiNames = Object.keys(apis) as ApiName[];

/** The token in one of the places in which clients put it. */
export const credential = (place: string, token: string): Record<string, string> =>
  place === 'authorization' ? { authorization: `Bearer ${token}` } : { [place]: token };

export interface AgentAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly bytes: Buffer;
  /** Whether the answer came to its end. */
  readonly isWhole: boolean;
}

export interface AgentRequest {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

/** Opens a request with exactly these headers, and resolves with the head of its answer. */
export async function open(
  url: string,
  { method = 'POST', headers = {}, body, signal }: AgentRequest = {},
): Promise<IncomingMessage> {
  const outgoing = request(url, {
    method,
    agent: false,
    ...(signal === undefined ? {} : { signal }),
    headers: {
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
      ...headers,
    },
  });
  const answer = once(outgoing, 'response') as Promise<[IncomingMessage]>;
  outgoing.end(body);
  const [incoming] = await answer;
  // The server may end the connection while the rest of a refused body is under way.
  outgoing.on('error', () => undefined);
  incoming.on('error', () => undefined);
  return incoming;
}

export async function read(incoming: IncomingMessage): Promise<AgentAnswer> {
  const chunks: Buffer[] = [];
  incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
  // `once` would reject for an answer that breaks off.
  await new Promise((resolve) => incoming.once('close', resolve));
  const bytes = Buffer.concat(chunks);
  return {
    status: incoming.statusCode ?? 0,
    headers: incoming.headers,
    text: bytes.toString(),
    bytes,
    isWhole: incoming.complete,
  };
}

export const send = async (url: string, options: AgentRequest = {}): Promise<AgentAnswer> =>
  read(await open(url, options));

export interface ModelRequest extends Omit<AgentRequest, 'body'> {
  readonly isStream?: boolean;
  /** Path in place of the API's own. */
  readonly path?: string;
  /** Fields in addition to those of the API's example. */
  readonly fields?: object;
  /** The whole body in place of the example. */
  readonly body?: string | Buffer;
}

/** Asks for an answer as the client of an API does. */
export const openModel = (
  { baseUrl, token }: Access,
  api: ApiName,
  { isStream = false, fields = {}, path: other, body, headers = {}, ...rest }: ModelRequest = {},
): Promise<IncomingMessage> => {
  const { path, streamPath, streamed, place, body: example } = apis[api];
  return open(`${baseUrl}/${other ?? (isStream ? streamPath : path)}`, {
    ...rest,
    headers: { 'content-type': 'application/json', ...credential(place, token), ...headers },
    body: body ?? JSON.stringify({ ...example, ...(isStream ? streamed : {}), ...fields }),
  });
};

export const askModel = async (
  access: Access,
  api: ApiName,
  options: ModelRequest = {},
): Promise<AgentAnswer> => read(await openModel(access, api, options));

/** The message of a refusal, which has to have the shape of the API's own errors. */
export function refusalIn(api: ApiName, { status, headers, text }: AgentAnswer): string {
  expect(headers['content-type']).toBe('application/json');
  const message = expect.any(String) as string;
  const anyText = expect.any(String) as string;
  const code = expect.anything() as string;
  const shapes = {
    chat: { error: { message, type: anyText, code, param: null } },
    responses: { error: { message, type: anyText, code, param: null } },
    messages: { type: 'error', error: { type: anyText, message } },
    gemini: {
      error: { code: status, status: expect.stringMatching(/^[A-Z_]+$/) as string, message },
    },
  };
  const parsed = JSON.parse(text) as { error: { message: string; code?: unknown } };
  const expected: unknown = shapes[api];
  if (parsed.error.code === null) expect(parsed).toMatchObject({ error: { message, param: null } });
  else expect(parsed).toEqual(expected);
  return parsed.error.message;
}

/** The field with which a request of an API limits its output. */
export const maxOf = (api: ApiName, tokens: number): object =>
  ({
    chat: { max_tokens: tokens },
    responses: { max_output_tokens: tokens },
    messages: { max_tokens: tokens },
    gemini: { generationConfig: { maxOutputTokens: tokens } },
  })[api];
