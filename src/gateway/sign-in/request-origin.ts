import type { IncomingMessage } from 'node:http';
import { isLoopback } from './session-cookie.ts';
import { maxPathLength } from '../pages/page.ts';

type OriginRequest = Pick<IncomingMessage, 'headers' | 'method'>;

const hostOf = (url: string): string | undefined =>
  URL.canParse(url) ? new URL(url).host : undefined;

/** Whether a page of another origin than the service has made the request, as the browser says. */
export function isFromElsewhere({ headers }: Pick<OriginRequest, 'headers'>): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

/**
 * Whether a page of the service itself has made a write. The header Origin names the service: by
 * the host of the request, or by the public URL where a proxy has replaced that host. Browsers send
 * Sec-Fetch-Site to every address but a plain-text one of another machine.
 */
export function isFromOwnPage(request: OriginRequest, publicUrl: string): boolean {
  const { origin, host, 'sec-fetch-site': site } = request.headers;
  if (origin === undefined) return false;
  const from = hostOf(origin);
  if (from === undefined || (from !== host?.toLowerCase() && from !== hostOf(publicUrl)))
    return false;
  const isPlain = !publicUrl.startsWith('https:') && !isLoopback(request);
  return site === 'same-origin' || (site === undefined && isPlain);
}

/**
 * A path of the service as a relative reference for a page at `/login`; the first page for
 * everything else, so that no link leads to another site.
 */
export function ownPath(wanted: string | null | undefined): string {
  const home = './';
  if (
    wanted === null ||
    wanted === undefined ||
    wanted.length > maxPathLength ||
    !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(wanted)
  )
    return home;
  const base = 'http://service.invalid';
  if (!URL.canParse(wanted, base)) return home;
  const { origin, pathname, search, hash } = new URL(wanted, base);
  return origin === base && !pathname.startsWith('//') ? `.${pathname}${search}${hash}` : home;
}
