import { createHash } from 'node:crypto';
import type { Response, Request } from 'express';
import { sendBytes } from '../http/send-bytes.ts';

/** Maximum length of a path to return to after the sign-in; a longer path is dropped. */
export const maxPathLength = 2048;

/**
 * URL of the sign-in page, relative to the current page, so that a proxy may serve a path prefix.
 * `return_to` leads back to the current page, unless that URL is too long.
 */
function loginFor({ path, originalUrl }: Request): string {
  const login = `${'../'.repeat(path.split('/').length - 2)}login`;
  return originalUrl.length > maxPathLength
    ? login
    : `${login}?return_to=${encodeURIComponent(originalUrl)}`;
}

export function redirect(response: Response, location: string): 'sent' {
  response.set({ location, 'cache-control': 'no-store' });
  response.status(303).end();
  return 'sent';
}

export const redirectToLogin = (response: Response): 'sent' =>
  redirect(response, loginFor(response.req));

export interface Page {
  readonly title: string;
  /** HTML content of the element `body`. Texts from outside are escaped with `escapeHtml`. */
  readonly body: string;
  /** Whether the page submits a form to the service. */
  readonly hasForm?: true;
  /**
   * Address that the browser opens at once. Unlike after a redirect, the page itself is what opens
   * it, so that no other origin counts as the origin of that request.
   */
  readonly leadsTo?: string;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
export const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');

const styles = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; }
code, pre { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .75rem; background: color-mix(in srgb, currentcolor 7%, transparent); border-radius: .4rem; }
details { border-bottom: 1px solid color-mix(in srgb, currentcolor 20%, transparent); padding: .35rem 0; }
details > :not(summary) { margin-left: 1rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; text-transform: uppercase; }
del { opacity: .6; }
table { border-collapse: collapse; width: 100%; }
/* A cell with a line that does not wrap makes its table as wide as the line. */
td pre { white-space: pre-wrap; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; }
dt { opacity: .7; }
dd { margin: 0 0 .6rem; }
input { font: inherit; width: 26rem; max-width: 100%; }
button { font: inherit; }
`;

/** The Content-Security-Policy source of an inline script or style: its hash. */
export const hashOf = (text: string): string =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/**
 * The Content-Security-Policy forbids scripts, frames, other origins, and styles except `styles`.
 */
const policyOf = ({ hasForm }: Page): string =>
  [
    "default-src 'none'",
    `style-src ${hashOf(styles)}`,
    "base-uri 'none'",
    `form-action ${hasForm === true ? "'self'" : "'none'"}`,
    "frame-ancestors 'none'",
  ].join('; ');

/**
 * Headers of every page. A page is never shown in a frame, nor cached without revalidation. With
 * `no-referrer`, browsers would send forms with `Origin: null`, which the service rejects.
 */
export const pageHeaders = (policy: string): Readonly<Record<string, string>> => ({
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': policy,
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-cache',
});

const htmlOf = ({ title, body, leadsTo }: Page): string =>
  [
    '<!doctype html>',
    '<html lang="en">',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escapeHtml(title)}</title>`,
    ...(leadsTo === undefined
      ? []
      : [`<meta http-equiv="refresh" content="0; url=${escapeHtml(leadsTo)}">`]),
    `<style>${styles}</style>`,
    `<body>${body}`,
    '</body></html>',
    '',
  ].join('\n');

export const rendered = (page: Page) => ({
  headers: pageHeaders(policyOf(page)),
  body: Buffer.from(htmlOf(page)),
});

/** Sends a page that is rendered for one request, and that no cache may store. */
export function sendPage(response: Response, page: Page, status: number): 'sent' {
  const { headers, body } = rendered(page);
  return sendBytes(response.status(status), { ...headers, 'cache-control': 'no-store' }, body);
}

/** A page that opens another address at once, without a redirect. */
export const leavePage = (title: string, leadsTo: string): Page => ({
  title,
  leadsTo,
  body: `<main><p><a href="${escapeHtml(leadsTo)}">Continue</a></p></main>`,
});
