import type { IncomingMessage, ServerResponse } from 'node:http';

const methods = 'GET, POST, PUT, PATCH, DELETE';
const requestHeaders = [
  'Authorization',
  'Content-Type',
  'X-Org-Id',
  'X-Session-API-Key',
  'Idempotency-Key',
  'X-OpenHands-Client',
  'X-OpenHands-Client-Version',
  'X-OpenHands-Telemetry-Distinct-Id',
].join(', ');
/**
 * Maximum age that browsers accept, because they preflight every request of a page on another
 * origin.
 */
const maxAgeSeconds = 7200;

/** Origins whose pages may read responses; `*` means every origin. */
export type CorsOrigins = readonly string[];

/** The headers of a response to a page of this origin; none where the origin is not allowed. */
function allowing(
  origins: CorsOrigins,
  origin: string | undefined,
): Readonly<Record<string, string>> {
  if (origins.includes('*')) return { 'access-control-allow-origin': '*' };
  if (origin === undefined || !origins.includes(origin)) return {};
  return { 'access-control-allow-origin': origin };
}

/**
 * Whether the proxy removes the header from an agent's answer: browsers refuse an answer with two
 * headers of CORS.
 */
export const isCorsHeader = (name: string): boolean =>
  name.toLowerCase().startsWith('access-control-');

/**
 * Allows pages of the given origins to read all responses, errors included, and answers their
 * preflights, on every path and without a key. The gateway has no cookies, so an origin gives no
 * right without an API key. Without origins the function does nothing.
 * @returns Whether the request was a preflight, which is answered then.
 */
export function cors(
  origins: CorsOrigins,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  if (origins.length === 0) return () => false;
  const varies = !origins.includes('*');
  return (request, response) => {
    const { origin } = request.headers;
    const headers = allowing(origins, origin);
    if (varies) response.appendHeader('vary', 'Origin');
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (
      request.method !== 'OPTIONS' ||
      origin === undefined ||
      request.headers['access-control-request-method'] === undefined
    ) {
      return false;
    }
    if ('access-control-allow-origin' in headers) {
      response.setHeader('access-control-allow-methods', methods);
      response.setHeader('access-control-allow-headers', requestHeaders);
      response.setHeader('access-control-max-age', maxAgeSeconds);
    }
    response.statusCode = 204;
    response.end();
    return true;
  };
}
