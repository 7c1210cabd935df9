import type { IncomingMessage } from 'node:http';
import { Refusal } from '../refusal.ts';

interface RawHeader {
  readonly name: string;
  readonly key: string;
  readonly value: string;
}

/** Reads alternating names and values, Node's format of received headers. */
export function* headersIn(raw: readonly string[]): Generator<RawHeader, void, undefined> {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const [name = '', value = ''] = [raw[index], raw[index + 1]];
    yield { name, key: name.toLowerCase(), value };
  }
}

/** Matches printable ASCII without `#` and `\`. Some parsers read a backslash as a slash. */
const plainPath = /^\/(?:[!"$&-[\]-~]|%[0-9A-Fa-f]{2})*$/;
const plainQuery = /^[!-~]*$/;
/** Matches a dot segment between slashes. Each character may be encoded, and a `;` may follow. */
const dotSegment = /(?:\/|%2f)(?:\.|%2e){1,2}(?=\/|%2f|;|$)/i;
/** Matches encoded control characters and backslashes. */
const encodedTrouble = /%(?:[01][0-9a-f]|7f|5c)/i;

/**
 * Matches two slashes in any spelling at the beginning, with at most two dots in between. A browser
 * reads such a path in a redirect as the URL of another host.
 */
const hostStart = /^\/(?:\.|%2e){0,2}(?:[/\\]|%2f|%5c)/i;

const namesHost = (path: string): boolean => hostStart.test(path);

/**
 * Whether every server and proxy reads the path in the same way. Encoded slashes are allowed after
 * the first segment, because the proxy forwards them unchanged.
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
/** Headers that may occur only once, because two servers could use different ones of two values. */
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
/** Matches printable characters without `#`: a request has no fragment. */
const plainTarget = /^[!"$-~]*$/;

const refuse = (detail: string) => new Refusal('malformed-request', detail);

/** Returns the name of a repeated header that may occur only once. */
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
 * Returns the refusal of an ambiguous request, which parsers could read as different requests.
 * Converts a target in absolute form to origin form.
 * @param singleHeaders Lower-case names of headers that may occur only once, besides `single`.
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

/** Refuses a path whose beginning a client or a URL builder could read as a host. */
const pathFlaw = (path: string): Refusal | undefined =>
  namesHost(path) ? refuse('The path begins with more than one slash.') : undefined;
