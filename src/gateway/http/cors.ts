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
/** As long as browsers keep it at most: every request of a page on another origin is preflighted. */
const maxAgeSeconds = 7200;

/** Origins whose pages may read responses; `*` means every origin. */
export type CorsOrigins = readonly string[];

/** The headers of a response to a page of this origin; none where the origin is not allowed. */
function allowing(origins: CorsOrigins, origin: string | undefined): Readonly<Record<string, string>> {
  if (origins.includes('*')) return { 'access-control-allow-origin': '*' };
  if (origin === undefined || !origins.includes(origin)) return {};
  return { 'access-control-allow-origin': origin };
}

/** Headers of an agent's answer that a proxy leaves out, beside ours: a browser refuses two answers to one question. */
export const isCorsHeader = (name: string): boolean => name.toLowerCase().startsWith('access-control-');

/**
 * Lets pages of the given origins use everything that comes after it, errors included, and answers their preflights, on every path
 * and without a key. There are no cookies here, so it is the API key that protects, and an origin gives no right by itself. Without
 * origins it does nothing.
 * @returns Whether the request was a preflight, which is answered then.
 */
export function cors(origins: CorsOrigins): (request: IncomingMessage, response: ServerResponse) => boolean {
  if (origins.length === 0) return () => false;
  const varies = !origins.includes('*');
  return (request, response) => {
    const { origin } = request.headers;
    const headers = allowing(origins, origin);
    if (varies) response.appendHeader('vary', 'Origin');
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (request.method !== 'OPTIONS' || origin === undefined || request.headers['access-control-request-method'] === undefined) {
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
