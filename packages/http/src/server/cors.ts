import type { IncomingMessage, ServerResponse } from 'node:http';

const methods = 'GET, POST, PUT, PATCH, DELETE';
/** Maximum time for which browsers cache a preflight; otherwise each request would need one. */
const maxAgeSeconds = 7200;

/** Origins whose pages may read responses; `*` means every origin. */
export type CorsOrigins = readonly string[];

/**
 * Allows pages of the given origins to read all responses, including errors, and answers preflights
 * on every path without authentication. This grants no access, because the service has no cookies.
 * Without origins the function does nothing.
 * @param given The origins, or a function that returns them at the first request.
 * @param requestHeaders Headers that pages may send.
 * @returns Whether the request was a preflight, which is then answered.
 */
export function cors(
  given: CorsOrigins | (() => CorsOrigins),
  requestHeaders: readonly string[],
): (request: IncomingMessage, response: ServerResponse) => boolean {
  let known: CorsOrigins | undefined;
  return (request, response) => {
    const origins = (known ??= typeof given === 'function' ? given() : given);
    if (origins.length === 0) return false;
    const { origin } = request.headers;
    const allowed = ['*', origin].find((each) => each !== undefined && origins.includes(each));
    if (allowed !== '*') response.appendHeader('vary', 'Origin');
    if (allowed !== undefined) response.setHeader('access-control-allow-origin', allowed);
    if (
      request.method !== 'OPTIONS' ||
      origin === undefined ||
      request.headers['access-control-request-method'] === undefined
    ) {
      return false;
    }
    if (allowed !== undefined) {
      response.setHeader('access-control-allow-methods', methods);
      response.setHeader('access-control-allow-headers', requestHeaders.join(', '));
      response.setHeader('access-control-max-age', maxAgeSeconds);
    }
    response.statusCode = 204;
    response.end();
    return true;
  };
}
