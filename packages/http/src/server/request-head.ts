import type { IncomingMessage } from 'node:http';
import { Refusal } from '../refusal.ts';

interface RawHeader {
  readonly name: string;
  readonly key: string;
  readonly value: string;
}

/** Reads a list of names and values in turn, as Node has the headers that have arrived. */
export function* headersIn(raw: readonly string[]): Generator<RawHeader, void, undefined> {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const [name = '', value = ''] = [raw[index], raw[index + 1]];
    yield { name, key: name.toLowerCase(), value };
  }
}

/** Printable ASCII; no fragment, and no backslash, which some take for a slash. */
const plainPath = /^\/(?:[!"$&-[\]-~]|%[0-9A-Fa-f]{2})*$/;
const plainQuery = /^[!-~]*$/;
/** Dot segments, plain or encoded, with or without a parameter, between slashes of any spelling. */
const dotSegment = /(?:\/|%2f)(?:\.|%2e){1,2}(?=\/|%2f|;|$)/i;
/** Encoded control characters and backslashes. */
const encodedTrouble = /%(?:[01][0-9a-f]|7f|5c)/i;

/**
 * A slash, after nothing or dots another one, both of either spelling: a URL of this form without
 * an origin before it names a host, and a redirect to it leaves the server.
 */
const hostStart = /^\/(?:\.|%2e){0,2}(?:[/\\]|%2f|%5c)/i;

/** Whether a path could be taken for `//` and a host, where a URL is built from it. */
const namesHost = (path: string): boolean => hostStart.test(path);

/**
 * Whether every server and proxy on the way reads the path in the same way. Encoded slashes are
 * allowed behind the first segment: the proxy forwards them as they are.
 */
export function isSafePath(path: string): boolean {
  const query = path.indexOf('?');
  const pathname = query < 0 ? path : path.slice(0, query);
  if (query >= 0 && !plainQuery.test(path.slice(query))) return false;
  return (
    plainPath.test(pathname) &&
    !namesHost(pathname) &&
    !dotSegment.test(pathname) &&
    !encodedTrouble.test(pathname)
  );
}

/** Maximum number of headers: browsers send about 20, and each proxy adds some. */
const maxHeaders = 200;
/** Headers that a request may have once: two servers could each believe another one. */
const single: ReadonlySet<string> = new Set([
  'host',
  'authorization',
  'content-type',
  'content-encoding',
  'content-length',
  'transfer-encoding',
  'upgrade',
]);
const hostForm = /^(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])?(?::\d{0,5})?$/;
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i;
/** Printable characters without `#`: a request has no fragment. */
const plainTarget = /^[!"$-~]*$/;

const refuse = (detail: string) => new Refusal('malformed-request', detail);

/** The name of a header that may come once and came twice. */
function repeatedName(
  rawHeaders: readonly string[],
  singleHeaders: readonly string[],
): string | undefined {
  const seen = new Set<string>();
  for (const { key } of headersIn(rawHeaders)) {
    if (!single.has(key) && !singleHeaders.includes(key)) continue;
    if (seen.has(key)) return key;
    seen.add(key);
  }
  return undefined;
}

/**
 * The refusal of an ambiguous request, which two parsers could take for different requests;
 * undefined where there is none. A target in absolute form becomes one in origin form.
 * @param singleHeaders Names in lower case of further headers that a request may have once.
 */
export function headFlaw(
  request: IncomingMessage,
  singleHeaders: readonly string[],
): Refusal | undefined {
  const { rawHeaders, headers, httpVersion } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return refuse('Only HTTP/1.1 is spoken here, and HTTP/1.0.');
  if (rawHeaders.length > maxHeaders * 2) {
    return new Refusal('headers-too-large', `There are more than ${maxHeaders} headers.`);
  }
  const repeated = repeatedName(rawHeaders, singleHeaders);
  if (repeated !== undefined) return refuse(`There is more than one ${repeated} header.`);
  if (headers.host === undefined ? httpVersion === '1.1' : !hostForm.test(headers.host))
    return refuse('There is no Host header that is a host.');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || httpVersion !== '1.1')) {
    return refuse('The only transfer coding is chunked, with HTTP/1.1.');
  }
  return targetFlaw(request);
}

function targetFlaw(request: IncomingMessage): Refusal | undefined {
  const target = request.url ?? '';
  if (!plainTarget.test(target)) return refuse('The request target is not written plainly.');
  if (target === '*' && request.method === 'OPTIONS') return undefined;
  if (target.startsWith('/')) return pathFlaw(target);
  const [, authority, rest = ''] = absoluteForm.exec(target) ?? [];
  if (authority === undefined || authority.toLowerCase() !== request.headers.host?.toLowerCase()) {
    return refuse('The request target is neither a path nor a URL of this host.');
  }
  request.url = rest.startsWith('/') ? rest : `/${rest}`;
  return pathFlaw(request.url);
}

/**
 * A client, or a handler that builds a URL from such a path, could take its beginning for a host.
 */
const pathFlaw = (path: string): Refusal | undefined =>
  namesHost(path) ? refuse('The path begins with more than one slash.') : undefined;
