import { headersIn, isSafePath } from '../server/request-head.ts';

/** Hop-by-hop headers of RFC 9110 §7.6.1, and headers that old software treats like them. */
const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];

/** Headers that no upstream gets, because some give access to more than this upstream. */
const keptFromUpstreams: ReadonlySet<string> = new Set([
  ...hopByHop,
  'authorization',
  'cookie',
  'cookie2',
  'expect',
  'forwarded',
  'host',
  'x-real-ip',
  'x-request-id',
]);

/** Headers that no client gets from an upstream: clients would apply them to the whole proxy. */
const keptFromClients: ReadonlySet<string> = new Set([
  ...hopByHop,
  'alt-svc',
  'clear-site-data',
  'content-security-policy-report-only',
  'cross-origin-opener-policy',
  'date',
  'expect-ct',
  'nel',
  'public-key-pins',
  'public-key-pins-report-only',
  'refresh',
  'report-to',
  'reporting-endpoints',
  'server',
  'service-worker-allowed',
  'set-cookie',
  'set-cookie2',
  'set-login',
  'strict-transport-security',
  'surrogate-control',
  'x-content-type-options',
  'x-request-id',
]);

/**
 * Prefixes of headers that command reverse proxies in front of this one, for example to serve a
 * local file. Those proxies would execute the commands of an upstream as if this proxy sent them.
 */
const ordersToProxies = ['x-accel-', 'x-envoy-', 'x-lighttpd-', 'x-reproxy-', 'x-sendfile'];
const harmlessOrders: ReadonlySet<string> = new Set(['x-accel-buffering']);

/** Headers that affect an origin or ask for passwords. Removed if the origin is the proxy's. */
const ofWholeOrigin: ReadonlySet<string> = new Set([
  'accept-ch',
  'activate-storage-access',
  'critical-ch',
  'origin-agent-cluster',
  'speculation-rules',
  'use-as-dictionary',
  'www-authenticate',
]);

function isKeptFromClients(name: string, prefix: string): boolean {
  if (name === 'content-security-policy') return prefix !== '';
  if (
    keptFromClients.has(name) ||
    name.startsWith('access-control-') ||
    (prefix !== '' && ofWholeOrigin.has(name))
  )
    return true;
  return (
    name.startsWith('x-') &&
    !harmlessOrders.has(name) &&
    ordersToProxies.some((start) => name.startsWith(start))
  );
}

/** Returns the further hop-by-hop headers that the header Connection names. */
function connectionOptions(raw: readonly string[]): ReadonlySet<string> | undefined {
  let options: Set<string> | undefined;
  for (const { key, value } of headersIn(raw)) {
    if (key !== 'connection') continue;
    for (const option of value.split(',')) {
      const name = option.trim().toLowerCase();
      if (name !== '' && name !== 'keep-alive' && name !== 'close')
        (options ??= new Set()).add(name);
    }
  }
  return options;
}

export interface ForwardingFacts {
  /** Address of the client, or of the proxy in front of this one. */
  readonly clientAddress: string;
  /** Protocol of the URL that the client has used. */
  readonly protocol: 'http' | 'https';
  readonly host: string;
  /** Prefix of upstream paths in the client's URL; empty if the upstream has its own origin. */
  readonly prefix: string;
  readonly requestId: string;
  /** Value of the upstream's header Host. */
  readonly authority: string;
  /** Whether the client is authorized. If false, its user may have followed another site's link. */
  readonly isTrusted: boolean;
  /** Whether the request has a body, whose length is forwarded. */
  readonly hasBody: boolean;
  /**
   * Whether to remove Location and Content-Location. A client that followed them would send its
   * cookies to an address of the proxy itself.
   */
  readonly hidesLocations?: boolean;
}

export interface UpstreamHeaders {
  /** Lower-case names of further client headers that the upstream does not get. */
  readonly withheld: ReadonlySet<string>;
  /** Headers that the proxy adds, as alternating names and values. */
  readonly added: readonly string[];
}

/** Returns the headers for the upstream as alternating names and values. */
export function requestHeaders(
  raw: readonly string[],
  facts: ForwardingFacts,
  { withheld, added }: UpstreamHeaders,
): string[] {
  const ofConnection = connectionOptions(raw);
  const headers = ['host', facts.authority];
  for (const { name, key, value } of headersIn(raw)) {
    if (
      keptFromUpstreams.has(key) ||
      withheld.has(key) ||
      key.startsWith('x-forwarded-') ||
      key.startsWith('sec-websocket-')
    )
      continue;
    if (ofConnection?.has(key) === true || (key === 'content-length' && !facts.hasBody)) continue;
    headers.push(name, value);
  }
  headers.push(
    'x-forwarded-for',
    facts.clientAddress,
    'x-forwarded-proto',
    facts.protocol,
    'x-forwarded-host',
    facts.host,
  );
  if (facts.prefix !== '') headers.push('x-forwarded-prefix', facts.prefix);
  headers.push(...added, 'x-request-id', facts.requestId);
  return headers;
}

/** Matches two slashes before a host. Browsers read a backslash as a slash, and drop tabs. */
const hostStart = /^\/\t*[/\\]/;

/** Returns the path of an absolute or relative URL; undefined if it is not on the upstream. */
function ownPath(url: string, authority: string): string | undefined {
  if (url.startsWith('/'))
    return url.startsWith('//')
      ? url.startsWith(`//${authority}/`)
        ? url.slice(authority.length + 2)
        : undefined
      : url;
  const start = /^https?:\/\//i.exec(url)?.[0];
  if (start === undefined || !url.startsWith(authority, start.length)) return undefined;
  const rest = url.slice(start.length + authority.length);
  return rest === ''
    ? '/'
    : /^[/?#]/.test(rest)
      ? rest.startsWith('/')
        ? rest
        : `/${rest}`
      : undefined;
}

/**
 * Converts a URL in an upstream's response to a URL for the client. An untrusted client gets no URL
 * of another server: a link to the proxy could lead there, and some clients would send their keys.
 */
function placeFor(
  url: string,
  { prefix, authority, isTrusted, hidesLocations }: ForwardingFacts,
): string | undefined {
  if (hidesLocations === true) return undefined;
  const path = ownPath(url, authority);
  if (path === undefined) return isTrusted ? url : undefined;
  // Clients would read `//name` as another host, because the result lacks the upstream's address.
  if (hostStart.test(path)) return undefined;
  return isTrusted || isSafePath(path) ? `${prefix}${path}` : undefined;
}

/**
 * Statuses without content. RFC 9110 §8.6 forbids a Content-Length with 204. A client that uses the
 * header would read the next response as content. The length of 205 is 0, and the length of 304 may
 * be left out.
 */
const withoutContent: ReadonlySet<number> = new Set([204, 205, 304]);

export const hasContent = (status: number): boolean => !withoutContent.has(status);

/** Returns the headers for the client as alternating names and values. */
export function responseHeaders(
  raw: readonly (Buffer | string)[],
  facts: ForwardingFacts,
  status: number,
): string[] {
  const { requestId, prefix } = facts;
  const texts = raw.every((part) => typeof part === 'string')
    ? raw
    : raw.map((part) => part.toString('latin1'));
  const ofConnection = connectionOptions(texts);
  const headers = ['x-request-id', requestId, 'x-content-type-options', 'nosniff'];
  // Without the directive `sandbox`, a page of the upstream has the rights of the proxy's origin.
  if (prefix !== '') headers.push('content-security-policy', 'sandbox');
  const hasLength =
    hasContent(status) && !headersIn(texts).some(({ key }) => key === 'transfer-encoding');
  for (const { name, key, value } of headersIn(texts)) {
    if (
      isKeptFromClients(key, prefix) ||
      ofConnection?.has(key) === true ||
      (!hasLength && key === 'content-length')
    )
      continue;
    const shown = key === 'location' || key === 'content-location' ? placeFor(value, facts) : value;
    if (shown !== undefined) headers.push(name, shown);
  }
  return headers;
}
