import type { IncomingHttpHeaders } from 'node:http';

/**
 * Headers of an agent's request that the provider gets: those that describe the body, and those
 * that the clients of the seven agents are known to send. All others stay here. Servers on the way
 * obey many of them: with some they call another path (`x-original-url`,
 * `x-http-method-override`), with some they send the key to another host
 * (`x-portkey-custom-host`), and with some they bill more than the body asks for
 * (`x-vertex-ai-llm-shared-request-type`) or another account (`x-goog-user-project`).
 */
const forwarded: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'anthropic-beta',
  'anthropic-dangerous-direct-browser-access',
  'anthropic-version',
  'content-type',
  'conversation_id',
  'http-referer',
  'idempotency-key',
  'openai-beta',
  'originator',
  'session-id',
  'session_id',
  'traceparent',
  'tracestate',
  'user-agent',
  'version',
  'x-app',
  'x-client-request-id',
  'x-goog-api-client',
  'x-request-id',
  'x-server-timeout',
  'x-session-affinity',
  'x-title',
]);
const forwardedPrefixes = [
  ...['x-claude-code-', 'x-codex-', 'x-dashscope-', 'x-msh-', 'x-opencode-', 'x-stainless-'],
];

const isIn = (names: ReadonlySet<string>, prefixes: readonly string[], name: string): boolean =>
  names.has(name) || prefixes.some((prefix) => name.startsWith(prefix));

type Headers = Record<string, string | string[]>;

/**
 * The headers of an agent's request that the provider gets, without any credential. The relay reads
 * the answers, so it asks for them without compression.
 */
export function requestHeadersOf(headers: IncomingHttpHeaders): Headers {
  const ofConnection = new Set(
    (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase()),
  );
  const sent: Headers = { 'accept-encoding': 'identity' };
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && isIn(forwarded, forwardedPrefixes, name) && !ofConnection.has(name))
      sent[name] = value;
  return sent;
}

/**
 * Parameters of the address that the clients of the APIs need. All others stay here: LiteLLM calls
 * the model that `model` names, and Google's servers bill another project for `$userProject`.
 */
const parameters: ReadonlySet<string> = new Set([
  ...['$alt', 'alt', 'api-version', 'beta', 'client_version'],
  ...['after', 'after_id', 'before_id', 'limit', 'order', 'pageSize', 'pageToken'],
]);

/** Whether the provider gets this parameter of a request that the relay understands. */
export const isForwardedParameter = (name: string): boolean => parameters.has(name);

/**
 * Headers of an answer that agents use. All others are about the provider's own connections, or
 * tell an owner about others: LiteLLM writes what all have spent with the key, and its addresses.
 */
const passed: ReadonlySet<string> = new Set([
  'cache-control',
  'content-encoding',
  'content-length',
  'content-type',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-litellm-call-id',
  'x-litellm-response-cost',
  'x-request-id',
  'x-should-retry',
]);
const passedPrefixes = ['anthropic-', 'openai-', 'x-ratelimit-', 'x-goog-'];

/** The headers of a provider's answer that the agent gets: none that contains the key. */
export const answerHeadersOf = (
  headers: Readonly<Record<string, unknown>>,
  key: string | undefined,
): Headers =>
  Object.fromEntries(
    Object.entries(headers).filter(
      (entry): entry is [string, string | string[]] =>
        (typeof entry[1] === 'string' || Array.isArray(entry[1])) &&
        (key === undefined || !String(entry[1]).includes(key)) &&
        isIn(passed, passedPrefixes, entry[0]),
    ),
  );

/** Where an agent puts the token of its sandbox, and the provider expects its key. */
export type CredentialPlace = 'authorization' | 'x-api-key' | 'x-goog-api-key' | 'api-key' | 'key';

export interface FoundCredential {
  readonly place: CredentialPlace;
  readonly token: string;
}

const headerPlaces = ['x-api-key', 'x-goog-api-key', 'api-key'] as const;

/** Every credential in a request. An agent that sends several sends the same one in each place. */
export function credentialsIn(
  headers: IncomingHttpHeaders,
  query: URLSearchParams,
): readonly FoundCredential[] {
  const found: FoundCredential[] = [];
  const bearer = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(headers.authorization ?? '')?.[1];
  if (bearer !== undefined) found.push({ place: 'authorization', token: bearer });
  for (const place of headerPlaces) {
    const token = headers[place];
    if (typeof token === 'string') found.push({ place, token });
  }
  for (const token of query.getAll('key')) found.push({ place: 'key', token });
  return found;
}

/**
 * The key in the places in which the agent has sent its token. A key in the query becomes a header,
 * because servers log the addresses of their requests.
 */
export const keyHeaders = (
  key: string | undefined,
  places: readonly CredentialPlace[],
): Readonly<Record<string, string>> =>
  key === undefined
    ? {}
    : Object.fromEntries(
        places.map((place) =>
          place === 'authorization'
            ? [place, `Bearer ${key}`]
            : [place === 'key' ? 'x-goog-api-key' : place, key],
        ),
      );
