import type { IncomingHttpHeaders } from 'node:http';

/**
 * Headers of an agent's request that the provider does not get: those of one connection, those that
 * carry the sandbox's token, and those from which the provider would learn about the cluster. The
 * relay reads the answers, so it asks for them without compression.
 */
const withheld: ReadonlySet<string> = new Set([
  'accept-encoding',
  'api-key',
  'authorization',
  'connection',
  'content-length',
  'cookie',
  'cookie2',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'origin',
  'referer',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
  'x-api-key',
  'x-goog-api-key',
  'x-real-ip',
]);

const isWithheld = (name: string): boolean =>
  withheld.has(name) || name.startsWith('x-forwarded-') || name.startsWith('proxy-');

type Headers = Record<string, string | string[]>;

/** The headers of an agent's request that the provider gets, without any credential. */
export function requestHeadersOf(headers: IncomingHttpHeaders): Headers {
  const ofConnection = new Set(
    (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase()),
  );
  const sent: Headers = { 'accept-encoding': 'identity' };
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !isWithheld(name) && !ofConnection.has(name)) sent[name] = value;
  return sent;
}

/** Headers of an answer that agents use. All others are about the provider's own connections. */
const passed: ReadonlySet<string> = new Set([
  'cache-control',
  'content-encoding',
  'content-type',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-request-id',
  'x-should-retry',
]);
const passedPrefixes = ['anthropic-', 'openai-', 'x-ratelimit-', 'x-goog-', 'x-litellm-'];

/** The headers of a provider's answer that the agent gets. */
export const answerHeadersOf = (headers: Readonly<Record<string, unknown>>): Headers =>
  Object.fromEntries(
    Object.entries(headers).filter(
      (entry): entry is [string, string | string[]] =>
        (typeof entry[1] === 'string' || Array.isArray(entry[1])) &&
        (passed.has(entry[0]) || passedPrefixes.some((prefix) => entry[0].startsWith(prefix))),
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
  const key = query.get('key');
  if (key !== null) found.push({ place: 'key', token: key });
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
