import type { Request, Response } from 'express';

/** The sign-in that leads back, relative to the page, so that a proxy may serve a path prefix. */
function loginFor({ path, originalUrl }: Request): string {
  const up = '../'.repeat(path.split('/').length - 2);
  return `${up}login?return_to=${encodeURIComponent(originalUrl)}`;
}

/** Sends a browser to another page. */
export function redirect(response: Response, location: string): void {
  response.set({ location, 'cache-control': 'no-store' });
  response.status(303).end();
}

/** Sends a browser without a session to the sign-in. */
export const redirectToLogin = (request: Request, response: Response): void =>
  redirect(response, loginFor(request));
