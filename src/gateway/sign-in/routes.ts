import type { Sessions } from './sessions.ts';
import type { KeyUse } from '../auth/key-use.ts';
import { type KeyRing, authenticateKey } from '../auth/key-ring.ts';
import type { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { readBody } from '@conversation-operator/http/body/json-body';
import { ProblemError, unavailable } from '../errors/problem-error.ts';
import { type Route, endpoints, success, successSchema } from '../http/route.ts';
import { sendPage, redirect, escapeHtml, type Page } from '../pages/page.ts';
import { isFromOwnPage, ownPath } from './session-cookie.ts';

const hidden = (name: string, value: string): string =>
  `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`;

/** HTML that explains how to get a sign-in link. */
const wayToLink =
  '<p>A link signs you in without a key, once. On this machine <code>make run</code> prints one, and the command for the next one, which ends in <code>login-link</code>. On a cluster ask the people who run this service: they make one with <code>conversation-operator login-link --owner NAME</code>.</p>';

const keyPage = ({
  returnTo,
  notice = '',
}: {
  /** Path to open after the sign-in. */
  readonly returnTo: string;
  readonly notice?: string;
}): Page => ({
  title: 'Sign in',
  hasForm: true,
  body: `
<main>
<h1>Sign in</h1>
${notice === '' ? '' : `<p role="alert">${escapeHtml(notice)}</p>`}
<form method="post" action="login">
${hidden('return_to', returnTo)}
<p><label>API key<br><input name="api_key" type="password" autocomplete="current-password" spellcheck="false" required autofocus></label></p>
<p><button>Sign in</button></p>
</form>
${wayToLink}
</main>
`,
});

/**
 * The page that a sign-in link opens. Only its button signs in, so that an email scanner or another
 * site that opens the link changes nothing.
 */
const confirmationPage = ({
  owner,
  present,
  token,
  returnTo,
}: {
  readonly owner: string;
  readonly present: string | undefined;
  readonly token: string;
  readonly returnTo: string;
}): Page => ({
  title: 'Sign in',
  hasForm: true,
  body: `
<main>
<h1>Sign in as ${escapeHtml(owner)}?</h1>
<p>The link that opened this page signs you in as <b>${escapeHtml(owner)}</b>.${
    present === undefined ? '' : ` You are signed in as <b>${escapeHtml(present)}</b> now.`
  } Continue only if you asked for the link.</p>
<form method="post" action="login">
${hidden('token', token)}
${hidden('return_to', returnTo)}
<p><button>Sign in as ${escapeHtml(owner)}</button></p>
</form>
</main>
`,
});

const mediaType = 'text/html';
const { post, getOpen, postOpen } = endpoints('pages');

const maxFormBytes = 8 * 1024;
const formType = 'application/x-www-form-urlencoded';

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

const refusedLink =
  'The link is not valid: it signs in once, within 10 minutes. Get a new link, or use an API key.';
const refusedKey = 'The API key is not valid.';

interface SignInNeeds {
  readonly sessions: Sessions;
  readonly ring: KeyRing;
  readonly isSynced: () => boolean;
  readonly publicUrl: () => string;
  readonly rateLimits: RateLimits;
  readonly proxies: TrustedProxies;
  readonly keyUse: KeyUse;
}

/** The pages and endpoints with which a person signs in and out. */
export const signInRoutes = (needs: SignInNeeds): readonly Route[] => {
  const { sessions, ring, isSynced, publicUrl, rateLimits, proxies, keyUse } = needs;

  /** Shows the sign-in page with status 401. Throws 429 after too many failures of the client. */
  function refuse(response: Response, page: Parameters<typeof keyPage>[0]): 'sent' {
    rateLimits.failedKey(proxies.clientAddress(response.req));
    response.setHeader('www-authenticate', 'Bearer');
    return sendPage(response, keyPage(page), 401);
  }

  const leadTo = (response: Response, returnTo: string) => redirect(response, ownPath(returnTo));

  return [
    getOpen('/login', 'loginPage', {
      mediaType,
      summary:
        'The page to sign in: with the button of a link (?token=), or the form for an API key; with a session and no link 303 to ?return_to=',
      query: z.object({ token: z.string().optional(), return_to: z.string().optional() }),
      responses: { 200: z.string(), 303: z.string(), 401: z.string() },
      handle: async ({ query, request, response }) => {
        if (!isSynced()) throw unavailable();
        const [token, returnTo] = [textOf(query['token']), textOf(query['return_to'])];
        const present = sessions.holderOf(request)?.owner;
        if (token === '')
          return present === undefined
            ? sendPage(response, keyPage({ returnTo }), 200)
            : leadTo(response, returnTo);
        const link = await sessions.linkOf(token);
        if (link === undefined) return refuse(response, { notice: refusedLink, returnTo });
        // Email scanners and chats open links too, so only the form of the page uses up a link.
        const { owner } = link.key.spec;
        return sendPage(response, confirmationPage({ owner, present, token, returnTo }), 200);
      },
    }),
    postOpen('/login', 'login', {
      mediaType,
      summary:
        'Sign in with the form of the page: api_key or token, and return_to (application/x-www-form-urlencoded)',
      responses: { 303: z.string(), 401: z.string() },
      problems: [
        'cross-origin-request',
        'unsupported-media-type',
        'body-too-large',
        'request-timeout',
        'too-many-attempts',
        'rate-limited',
        'key-depth-exceeded',
        'unavailable',
      ],
      handle: async ({ request, response }) => {
        refuseForeignForm(request, publicUrl());
        if (!isSynced()) throw unavailable();
        const form = new URLSearchParams(
          (await readBody(request, maxFormBytes, formType)).toString('utf8'),
        );
        const returnTo = form.get('return_to') ?? '';
        const token = form.get('token');
        if (token !== null) {
          const owner = await sessions.redeem(token, response);
          return owner === undefined
            ? refuse(response, { notice: refusedLink, returnTo })
            : leadTo(response, returnTo);
        }
        const principal = authenticateKey(ring, (form.get('api_key') ?? '').trim());
        if (principal === undefined) return refuse(response, { notice: refusedKey, returnTo });
        keyUse.seen(principal.keyName);
        rateLimits.request(principal.owner, 'writes');
        await sessions.openWithKey(principal, response);
        return leadTo(response, returnTo);
      },
    }),
    postOpen('/logout', 'logout', {
      mediaType,
      summary: 'Sign out: ends the session, and removes its cookie; then 303 to /login',
      responses: { 303: z.string() },
      problems: ['cross-origin-request'],
      handle: async ({ request, response }) => {
        refuseForeignForm(request, publicUrl());
        await sessions.close(response);
        return redirect(response, './login');
      },
    }),
    post('/api/authenticate', 'authenticate', {
      summary: 'Whether the request has a valid key or session',
      responses: { 200: successSchema },
      handle: () => success,
    }),
  ];
};

/** Throws 403 for a form of another site, which could sign a person out or in as another owner. */
function refuseForeignForm(request: Request, publicUrl: string): void {
  if (!isFromOwnPage(request, publicUrl))
    throw new ProblemError(
      'cross-origin-request',
      'The form has to be sent by the page of this service: the headers Origin and Sec-Fetch-Site have to say so.',
    );
}
