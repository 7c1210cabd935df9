import type { Request, Response } from 'express';

/** Largest accepted path; a longer one is replaced by the first page. */
export const maxPathLength = 2048;

/**
 * The sign-in, relative to the page, so that a proxy may serve a path prefix. The sign-in leads
 * back, except to an address that it does not accept; no header has room for that either.
 */
function loginFor({ path, originalUrl }: Request): string {
  const login = `${'../'.repeat(path.split('/').length - 2)}login`;
  return originalUrl.length > maxPathLength
    ? login
    : `${login}?return_to=${encodeURIComponent(originalUrl)}`;
}

/** Sends a browser to another page. */
export function redirect(response: Response, location: string): void {
  response.set({ location, 'cache-control': 'no-store' });
  response.status(303).end();
}

/** Sends a browser without a session to the sign-in. */
export const redirectToLogin = (request: Request, response: Response): void =>
  redirect(response, loginFor(request));
