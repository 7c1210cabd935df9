import type { Clock } from '@conversation-operator/base/clock';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Sessions } from './sessions.ts';
import type { KeyUse } from '../auth/key-use.ts';
import { type KeyRing, authenticateKey } from '../auth/key-ring.ts';
import type { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { readBody } from '@conversation-operator/http/body/json-body';
import { ProblemError } from '../errors/problem-error.ts';
import { unavailable } from '../errors/common-problems.ts';
import type { Refusals } from '../audit/refusals.ts';
import { type Route, endpoints, originOf, success, successSchema } from '../http/route.ts';
import { sendPage, redirect, escapeHtml, leavePage, type Page } from '../pages/page.ts';
import { IdentityRefused, type IssuerSettings } from './identity.ts';
import {
  InteractionRequired,
  IssuerFailed,
  transactionMs,
  transactionSchema,
  type Confirmed,
  type IdentityProviders,
  type Transaction,
} from './identity-providers.ts';
import type { PersonChecks } from './person-checks.ts';
import { isFromOwnPage, ownPath, readCookie, seal, setCookie, unseal } from './session-cookie.ts';

const hidden = (name: string, value: string): string =>
  `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`;

/** HTML that explains how to get a sign-in link. */
const wayToLink =
  '<p>A link signs you in without a key, once. On this machine <code>make run</code> prints one, and the command for the next one, which ends in <code>login-link</code>. On a cluster ask the people who run this service: they make one with <code>conversation-operator login-link --owner NAME</code>.</p>';

/** A link that begins the sign-in at an identity provider, from a page at this prefix. */
const wayTo = ({ name, title = name }: IssuerSettings, prefix: string, returnTo: string): string =>
  `<p><a href="${prefix}${name}?return_to=${encodeURIComponent(returnTo)}">Sign in with ${escapeHtml(title)}</a></p>`;

/** The page of a sign-in that failed at `/oauth/callback/{issuer}` or `/login/{issuer}`. */
const failurePage = (issuer: IssuerSettings, text: string, prefix: string): Page => ({
  title: 'Sign in',
  body: `
<main>
<h1>You are not signed in</h1>
<p role="alert">${escapeHtml(text)}</p>
${wayTo(issuer, prefix, '/')}
</main>
`,
});

const keyPage = ({
  returnTo,
  notice = '',
  issuers = [],
}: {
  /** Path to open after the sign-in. */
  readonly returnTo: string;
  readonly notice?: string;
  readonly issuers?: readonly IssuerSettings[];
}): Page => ({
  title: 'Sign in',
  hasForm: true,
  body: `
<main>
<h1>Sign in</h1>
${notice === '' ? '' : `<p role="alert">${escapeHtml(notice)}</p>`}
${issuers.map((issuer) => wayTo(issuer, 'login/', returnTo)).join('\n')}
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

/** The fields of a form. Throws for a body that is too large or of another media type. */
export const formOf = async (request: Request): Promise<URLSearchParams> =>
  new URLSearchParams((await readBody(request, maxFormBytes, formType)).toString('utf8'));

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
  readonly identityProviders: IdentityProviders;
  readonly personChecks: PersonChecks;
  readonly keys: Pick<SandboxKeys, 'sessionSealKeys'>;
  readonly clock: Clock;
  readonly refusals: Refusals;
}

/** The pages and endpoints with which a person signs in and out. */
export const signInRoutes = (needs: SignInNeeds): readonly Route[] => {
  const { sessions, ring, isSynced, publicUrl, rateLimits, keyUse, refusals } = needs;
  const { identityProviders } = needs;
  const { issuers } = identityProviders;
  const find = (name: string) => identityProviders.find(name);

  /** Shows the sign-in page with status 401. Throws 429 after too many failures of the client. */
  function refuse(
    response: Response,
    page: Parameters<typeof keyPage>[0] & { readonly way: 'link' | 'key'; readonly notice: string },
  ): 'sent' {
    const origin = originOf(response);
    rateLimits.failedKey(origin.client);
    refusals.recordSignIn({ ...origin, way: page.way, reason: page.notice });
    response.setHeader('www-authenticate', 'Bearer');
    return sendPage(response, keyPage({ ...page, issuers }), 401);
  }

  /** Where the issuer fails, the person is signed out here alone. */
  const endAtIssuer = async (issuer: IssuerSettings): Promise<string | undefined> =>
    identityProviders.endSessionUrl(issuer).catch(() => undefined);

  const leadTo = (response: Response, returnTo: string) => redirect(response, ownPath(returnTo));

  return [
    getOpen('/login', 'loginPage', {
      mediaType,
      summary:
        'The page to sign in: with the button of a link (?token=), or the form for an API key; with a session and no link 303 to ?return_to=',
      query: z.object({
        token: z.string().optional(),
        return_to: z.string().optional(),
        again: z.string().optional(),
      }),
      responses: { 200: z.string(), 303: z.string(), 401: z.string() },
      handle: async ({ query, request, response }) => {
        if (!isSynced()) throw unavailable();
        const [token, returnTo] = [textOf(query['token']), textOf(query['return_to'])];
        await needs.personChecks.check(request, response);
        const present = sessions.holderOf(request)?.owner;
        if (token === '') {
          if (present !== undefined) return leadTo(response, returnTo);
          // The identity provider has to confirm the person again, and mostly asks nothing.
          const issuer = sessions.personSessionOf(request)?.spec.person?.issuer;
          if (issuer !== undefined && find(issuer) !== undefined && query['again'] === undefined)
            return redirect(
              response,
              `login/${issuer}?prompt=none&return_to=${encodeURIComponent(returnTo)}`,
            );
          return sendPage(response, keyPage({ returnTo, issuers }), 200);
        }
        const link = await sessions.linkOf(token);
        if (link === undefined)
          return refuse(response, { way: 'link', notice: refusedLink, returnTo });
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
        const form = await formOf(request);
        const returnTo = form.get('return_to') ?? '';
        const token = form.get('token');
        if (token !== null) {
          const owner = await sessions.redeem(token, response);
          return owner === undefined
            ? refuse(response, { way: 'link', notice: refusedLink, returnTo })
            : leadTo(response, returnTo);
        }
        const principal = authenticateKey(ring, (form.get('api_key') ?? '').trim());
        if (principal === undefined)
          return refuse(response, { way: 'key', notice: refusedKey, returnTo });
        keyUse.seen(principal.keyName);
        rateLimits.request(principal.owner, 'writes');
        await sessions.openWithKey(principal, response);
        return leadTo(response, returnTo);
      },
    }),
    postOpen('/logout', 'logout', {
      mediaType,
      summary:
        'Sign out: ends the session, and removes its cookie; then 303 to /login, or a page that leads to the sign-out of the identity provider',
      responses: { 200: z.string(), 303: z.string() },
      problems: ['cross-origin-request'],
      handle: async ({ request, response }) => {
        refuseForeignForm(request, publicUrl());
        const issuer = find(sessions.personSessionOf(request)?.spec.person?.issuer ?? '');
        await sessions.close(response);
        const end = issuer && (await endAtIssuer(issuer));
        // A form may lead to no other origin (form-action), a page may.
        return end === undefined
          ? redirect(response, './login')
          : sendPage(response, leavePage('Sign out', end), 200);
      },
    }),
    ...providerRoutes(needs),
    post('/api/authenticate', 'authenticate', {
      scope: 'any',
      summary: 'Whether the request has a valid key or session',
      responses: { 200: successSchema },
      handle: () => success,
    }),
  ];
};

/** Throws 403 for a form of another site, which could sign a person out or in as another owner. */
export function refuseForeignForm(request: Request, publicUrl: string): void {
  if (!isFromOwnPage(request, publicUrl))
    throw new ProblemError(
      'cross-origin-request',
      'The form has to be sent by the page of this service: the headers Origin and Sec-Fetch-Site have to say so.',
    );
}

const issuerParams = z.object({ issuer: z.string() });
const noIssuer = () =>
  new ProblemError('route-not-found', 'There is no identity provider of this name.');

/** The sign-in at an identity provider, and the return from it. */
function providerRoutes(needs: SignInNeeds): readonly Route[] {
  const { identityProviders, sessions, keys, clock, publicUrl, isSynced, refusals } = needs;

  function setTransaction(response: Response, transaction: Transaction | undefined): void {
    const value =
      transaction === undefined ? '' : seal('sign-in', transaction, keys.sessionSealKeys());
    const maxAgeSeconds = transaction === undefined ? 0 : transactionMs / 1000;
    response.appendHeader(
      'set-cookie',
      setCookie(response.req, publicUrl(), { value, maxAgeSeconds, purpose: 'sign-in' }),
    );
  }

  /** The sign-in that this browser has begun at the issuer, and that has not ended yet. */
  function transactionOf(request: Request, issuer: string): Transaction | undefined {
    const sealed = readCookie(request, publicUrl(), 'sign-in');
    const found = sealed && unseal('sign-in', sealed, keys.sessionSealKeys(), transactionSchema);
    return found && found.issuer === issuer && found.expiresAtMs > clock.now() ? found : undefined;
  }

  /** Throws 429 after too many failures of the address, before anything else is done or logged. */
  const refuseFailing = (request: Request) =>
    needs.rateLimits.refuseFailing(needs.proxies.clientAddress(request));

  function fail(response: Response, issuer: IssuerSettings, text: string, status: number): 'sent' {
    const origin = originOf(response);
    needs.rateLimits.failedKey(origin.client);
    refusals.recordSignIn({ ...origin, way: 'provider', issuer: issuer.name, reason: text });
    return sendPage(response, failurePage(issuer, text, '../../login/'), status);
  }

  async function enter(
    response: Response,
    issuer: IssuerSettings,
    { claims, token, returnTo }: Confirmed & { readonly returnTo: string },
  ): Promise<'sent'> {
    const identity = needs.personChecks.identityOf(claims, issuer);
    needs.rateLimits.request(identity.owner, 'writes');
    await sessions.openForPerson(identity, response, token);
    return redirect(response, `../../${ownPath(returnTo)}`);
  }

  return [
    getOpen('/login/{issuer}', 'beginSignIn', {
      mediaType,
      summary:
        'Sign in at an identity provider: 303 to it; with ?prompt=none it asks the person nothing',
      params: issuerParams,
      query: z.object({ return_to: z.string().optional(), prompt: z.literal('none').optional() }),
      responses: { 303: z.string(), 503: z.string() },
      problems: ['route-not-found', 'too-many-attempts'],
      handle: async ({ query, request, response }) => {
        const issuer = identityProviders.find(textOf(request.params['issuer']));
        if (issuer === undefined) throw noIssuer();
        refuseFailing(request);
        try {
          const { location, transaction } = await identityProviders.begin(issuer, {
            returnTo: ownPath(textOf(query['return_to'])).slice(1),
            isSilent: query['prompt'] === 'none',
          });
          setTransaction(response, transaction);
          return redirect(response, location);
        } catch (error) {
          if (!(error instanceof IssuerFailed)) throw error;
          return sendPage(response, failurePage(issuer, unreachable(issuer), ''), 503);
        }
      },
    }),
    getOpen('/oauth/callback/{issuer}', 'endSignIn', {
      mediaType,
      summary: 'The return from an identity provider: 303 to the page of before',
      params: issuerParams,
      responses: { 303: z.string(), 400: z.string(), 403: z.string() },
      problems: ['route-not-found', 'too-many-attempts', 'rate-limited', 'unavailable'],
      handle: async ({ request, response }) => {
        if (!isSynced()) throw unavailable();
        const issuer = identityProviders.find(textOf(request.params['issuer']));
        if (issuer === undefined) throw noIssuer();
        refuseFailing(request);
        const transaction = transactionOf(request, issuer.name);
        const [, query = ''] = request.originalUrl.split(/\?(.*)/s);
        // Another tab of this browser has begun a sign-in since, which goes on.
        if (transaction?.state !== new URLSearchParams(query).get('state'))
          return sessions.holderOf(request) === undefined
            ? fail(response, issuer, noTransaction, 400)
            : redirect(response, '../../');
        setTransaction(response, undefined);
        const { returnTo } = transaction;
        try {
          const confirmed = await identityProviders.finish(issuer, transaction, query);
          return await enter(response, issuer, { ...confirmed, returnTo });
        } catch (error) {
          if (error instanceof InteractionRequired)
            return redirect(
              response,
              `../../login?again=1&return_to=${encodeURIComponent(returnTo)}`,
            );
          if (error instanceof IdentityRefused) {
            await sessions.endPersonSession(response, 'Refused');
            return fail(response, issuer, error.message, 403);
          }
          if (error instanceof IssuerFailed)
            return fail(response, issuer, `${unreachable(issuer)} Sign in again.`, 400);
          throw error;
        }
      },
    }),
  ];
}

const noTransaction =
  'This browser has not begun this sign-in, or has begun another one since, or it took more than 10 minutes. Sign in again.';

const unreachable = ({ name, title = name }: IssuerSettings): string =>
  `${title} can not be reached, or has not answered as an identity provider does.`;
