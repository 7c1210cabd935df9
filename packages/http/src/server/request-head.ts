import type { IncomingMessage } from 'node:http';
import { Refusal } from '../refusal.ts';
import { headersIn } from './raw-headers.ts';
import { namesHost } from './request-path.ts';

/** Maximum number of headers: browsers send about 20, and each proxy adds some. */
const maxHeaders = 200;
/**
 * Headers that a request may have once: of two, the server and a proxy before it could each
 * believe another one.
 */
const single: ReadonlySet<string> = new Set([
  'host',
  'authorization',
  'content-type',
  'content-encoding',
  'content-length',
  'transfer-encoding',
  'upgrade',
]);
/** A host name or address, and a port. */
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

/** A client, or a handler that builds a URL from such a path, could take its beginning for a host. */
const pathFlaw = (path: string): Refusal | undefined =>
  namesHost(path) ? refuse('The path begins with more than one slash.') : undefined;
