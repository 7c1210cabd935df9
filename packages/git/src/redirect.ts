import { GitHostError } from './git-host-error.ts';

const statuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
export const isRedirect = (status: number): boolean => statuses.has(status);

export interface RedirectBounds {
  /** Redirects lead only below this URL. */
  readonly within: URL;
  /**
   * Redirects lead only to paths with this ending, as git itself requires: others are pages for
   * people.
   */
  readonly path: string;
}

/** The URL to which an answer redirects. Throws `GitHostError` where it is not within the bounds. */
export function redirected(
  from: URL,
  { status, location }: { readonly status: number; readonly location: string | undefined },
  { within, path }: RedirectBounds,
): URL {
  const next =
    location !== undefined && URL.canParse(location, from.href)
      ? new URL(location, from)
      : undefined;
  if (next?.pathname.endsWith(path) !== true || !isBelow(next, within))
    throw new GitHostError('redirect', { status });
  return next;
}

/** Whether `url` has the origin of `base`, and a path below the path of `base`. */
const isBelow = (url: URL, base: URL): boolean =>
  url.origin === base.origin &&
  url.username === '' &&
  url.pathname.startsWith(`${base.pathname.replace(/\/+$/, '')}/`);
