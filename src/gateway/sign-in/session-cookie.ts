import type { IncomingMessage } from 'node:http';

/** The part of a request that decides which cookie belongs to it. */
export type CookieRequest = Pick<IncomingMessage, 'headers'>;

/** The cookie of one origin of the service. */
interface CookieKind {
  readonly name: string;
  readonly isSecure: boolean;
}

const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?$/i;

/** Whether the request names a host of the machine that the browser runs on. */
export const isLoopback = ({ headers }: CookieRequest): boolean =>
  loopbackHost.test(headers.host ?? '');

/**
 * Browsers send a cookie to every port of a host, so that its name contains the port where several
 * services may share the host. The prefix `__Host-` makes a browser refuse a cookie that another
 * host, or a page without TLS, has set.
 */
function kindOf(request: CookieRequest, publicUrl: string): CookieKind {
  const { host = '' } = request.headers;
  if (publicUrl.startsWith('https:') && !isLoopback(request))
    return { name: '__Host-conversation-operator', isSecure: true };
  const port = /:(\d{1,5})$/.exec(host)?.[1] ?? '80';
  return { name: `conversation-operator-${port}`, isSecure: false };
}

/** The value of the session cookie; undefined where the request has none, or more than one. */
export function readCookie(request: CookieRequest, publicUrl: string): string | undefined {
  const { cookie } = request.headers;
  if (cookie === undefined) return undefined;
  const start = `${kindOf(request, publicUrl).name}=`;
  const values = cookie
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(start));
  const [value] = values;
  return values.length === 1 ? value?.slice(start.length) : undefined;
}

/** The header Set-Cookie for a session, which ends after `maxAgeSeconds`; 0 removes the cookie. */
export function setCookie(
  request: CookieRequest,
  publicUrl: string,
  { value, maxAgeSeconds }: { readonly value: string; readonly maxAgeSeconds: number },
): string {
  const { name, isSecure } = kindOf(request, publicUrl);
  return [
    `${name}=${value}`,
    'Path=/',
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure ? ['Secure'] : []),
  ].join('; ');
}
